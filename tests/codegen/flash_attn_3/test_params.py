"""The argument blocks: places of fields as NVRTC 13.0.88 exported them, and the divisors that CUTLASS would store."""

from __future__ import annotations

import ctypes
from random import Random

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.flash_attn_3.instance import ForwardInstance, TileScheduler, forward_instance
from fmha_cli.codegen.flash_attn_3.params import block_of, divmod_of
from fmha_cli.codegen.struct import block_alignment, ctypes_structure, host_layout
from fmha_cli.domain.kernel import Family

SIZES = {(False, TileScheduler.DYNAMIC): 2368, (False, TileScheduler.VARLEN): 2112, (True, TileScheduler.SINGLE): 2176}
"""Bytes of blocks without qv, by packed query heads and scheduler, as compiled kernels state them."""


def instances() -> list[ForwardInstance]:
    families = (Family.FWD, Family.FWD_SPLITKV)
    return [forward_instance(kernel) for family in families for kernel in family_kernels("sm_90a", family)]


def dense_causal() -> ForwardInstance:
    return next(i for i in instances() if i.causal and i.stores_by_tma and i.hdim == 128)


def test_the_places_are_those_that_a_cubin_exported() -> None:
    places = {name: (offset, size) for name, offset, size in host_layout(block_of(dense_causal()))}
    assert places["mainloop__ptr_Q"] == (0, 8)
    assert places["mainloop__stride_Q"] == (24, 24)
    assert places["mainloop__qhead_per_khead_divmod"] == (424, 12)
    assert places["mainloop__tma_load_Q"] == (448, 192)
    assert places["mainloop__softmax_scale_log2"] == (1416, 4)
    assert places["mainloop__seqlens_rotary"] == (1584, 8)
    assert places["epilogue__ptr_O"] == (1600, 8)
    assert places["hw_info"] == (2240, 36)
    assert places["scheduler__total_blocks"] == (2280, 4)


def test_the_sizes_are_those_of_compiled_kernels() -> None:
    found = {
        (i.a.pack_gqa, i.scheduler): ctypes.sizeof(ctypes_structure(block_of(i))) for i in instances() if not i.a.qv
    }
    assert {key: found[key] for key in SIZES} == SIZES


def test_every_block_is_whole_descriptors() -> None:
    for block in {block_of(i) for i in instances()}:
        assert block_alignment(block) == 64
        assert ctypes.sizeof(ctypes_structure(block)) % 64 == 0
        assert all(offset % 64 == 0 for name, offset, size in host_layout(block) if size == 192)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 64, 96, 1000, 2**20 + 1, 2**31 - 1])
def test_a_divisor_divides(divisor: int) -> None:
    held, multiplier, shift = divmod_of(divisor)
    assert held == divisor
    assert multiplier < 1 << 32
    rng = Random(divisor)
    for number in (0, 1, divisor - 1, divisor, 2**31 - 1, *(rng.randrange(2**31) for _ in range(200))):
        quotient = number if divisor == 1 else (number * multiplier >> 32) >> shift
        assert quotient == number // divisor
