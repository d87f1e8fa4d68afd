"""Shared memory and threads from upstream's formulas agree with upstream's comments and with hand-computed values.

``tests/backends/flash_attn/test_templates.py`` compares every listed kernel with upstream's ``kernel_traits.h``.
"""

from __future__ import annotations

import pytest

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.traits import (
    Areas,
    backward_areas,
    combine_rows,
    rows_per_block,
    smem_bytes,
    threads,
)
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.signature import Signature

KIB = 1024


def kernel(family: Family, hdim: int, algorithm: Algorithm) -> KernelSpec:
    signature = Signature(dtype=DType.BF16, dtype_out=DType.BF16, hdim=hdim, hdim_v=hdim)
    return KernelSpec(backend="flash_attn", family=family, arch="sm_80", signature=signature, algorithm=algorithm)


def backward(hdim: int, rows: int, keys: int, regs: bool, single: bool = False) -> KernelSpec:
    algorithm = FaAlgorithm(tile=(rows, keys), warps=8, atoms=(4, 2, 2), v_in_regs=regs, single_buffer=single)
    return kernel(Family.BWD_DQ_DK_DV, hdim, algorithm)


@pytest.mark.parametrize(
    ("hdim", "tile", "kib"),
    [(128, (128, 32), 48), (256, (128, 64), 128), (256, (64, 64), 96), (256, (64, 32), 64), (256, (128, 32), 96)],
)
def test_forward_bytes_are_those_of_upstreams_comments(hdim: int, tile: tuple[int, int], kib: int) -> None:
    for family in (Family.FWD, Family.FWD_SPLITKV):
        assert smem_bytes(kernel(family, hdim, FaAlgorithm(tile=tile, warps=4))) == kib * KIB


@pytest.mark.parametrize(
    ("made", "kib"),
    [
        (backward(32, 128, 128, False), 104),
        (backward(32, 128, 128, True), 96),
        (backward(64, 128, 128, False), 144),
        (backward(96, 64, 128, True), 92),
        (backward(96, 64, 128, False), 116),
        (backward(128, 64, 128, False), 144),
        (backward(192, 64, 64, False), 136),
        (backward(256, 64, 64, False), 176),
        (backward(256, 64, 64, False, True), 144),
    ],
    ids=lambda value: f"{value.signature.hdim}" if isinstance(value, KernelSpec) else f"{value}",
)
def test_backward_bytes_are_those_of_upstreams_comments_and_bounds(made: KernelSpec, kib: int) -> None:
    assert smem_bytes(made) == kib * KIB


def test_v_in_registers_saves_what_the_scores_do_not_need() -> None:
    assert backward_areas(backward(256, 64, 32, True, True)) == Areas(65536, 32768, 4096, 4096, 32768)
    assert smem_bytes(backward(256, 64, 32, True, True)) == 65536 + max(32768, 16384 + 8192)
    assert smem_bytes(backward(32, 128, 128, True)) == 24576 + max(16384, 8192 + 2 * 32768)


def test_stages() -> None:
    traits = FaAlgorithm(tile=(64, 128), warps=8, atoms=(2, 4, 2))
    convert, first = (kernel(f, 128, traits) for f in (Family.BWD_CONVERT_DQ, Family.BWD_DOT_DO_O))
    assert (smem_bytes(convert), threads(convert)) == (64 * 128 * 2, 256)
    assert (smem_bytes(first), threads(first)) == (0, 256)
    combine = kernel(
        Family.FWD_SPLITKV_COMBINE, 64, FaAlgorithm(tile=(64, 256), warps=4, combine_rows=8, log_max_splits=5)
    )
    assert (smem_bytes(combine), threads(combine)) == (0, 128)


def test_rows_of_a_block() -> None:
    traits = FaAlgorithm(tile=(64, 128), warps=8, atoms=(2, 4, 2), combine_rows=4)
    rows = {family.value: rows_per_block(kernel(family, 128, traits)) for family in Family}
    assert (rows["fwd"], rows["bwd_dq_dk_dv"], rows["bwd_convert_dq"], rows["fwd_splitkv_combine"]) == (64, 128, 64, 4)
    assert [combine_rows(hdim) for hdim in (32, 64, 96, 128, 192, 256)] == [16, 8, 16, 4, 8, 4]


def test_another_backends_kernel_is_a_mistake() -> None:
    with pytest.raises(InternalError, match="not a FlashAttention kernel"):
        threads(kernel(Family.FWD, 64, Algorithm()))
