"""The dynamic shared memory of the kernels of a backward pass: ``SharedStorageSize``.

Source, in ``hopper/`` of the sdist of xformers 0.0.34: ``SharedStorage`` of ``flash_bwd_kernel_sm90.h`` and
``flash_bwd_postprocess_kernel.h``, ``TensorStorage`` of ``mainloop_bwd_sm90_tma_gmma_ws.hpp`` and ``epilogue_bwd.hpp``.
"""

from __future__ import annotations

from collections.abc import Iterable

from fmha_cli.codegen.flash_attn_3.backward_instance import (
    STAGES,
    Backward,
    BackwardInstance,
    ConvertInstance,
    DotInstance,
)

SIZE = 2
"""Bytes of an element of Q: there is no backward kernel of fp8."""
FLOAT = 4
LSE_ROWS = 64
"""The stages of LSE begin at multiples of so many rows (``SmemLayoutLSE``)."""


def backward_bytes(i: Backward) -> int:
    """Bytes of dynamic shared memory of a block."""
    if isinstance(i, DotInstance):
        return 0
    if isinstance(i, ConvertInstance):
        return _up(i.rows * i.hdim * (FLOAT + SIZE) + 16, 128)
    mainloop = _align(i)
    align = max(mainloop, _epilogue_align(i), 128)
    tensors = _up(_up(_end(_tensors(i)), mainloop), align)
    return _up(tensors + _pipelines(i), align)


def _tensors(i: BackwardInstance) -> Iterable[tuple[int, int]]:
    """Bytes and alignment of each array of ``TensorStorage`` in order. Arrays without elements take a byte."""
    rows, keys = i.a.tile
    stages_do, stages_ds = i.a.stages
    plain = _plain_align(i)
    k, row = keys * i.hdim * SIZE, rows * i.hdim
    lse = _up(rows, LSE_ROWS) * (STAGES - 1) + rows
    ds = rows * keys * stages_ds * SIZE
    yield k, plain
    yield k, _swizzled(i.hdim * SIZE) if i.a.v_in_regs else plain
    yield (row * FLOAT, 16) if i.hdim < 256 else (1, 1)
    yield row * STAGES * SIZE, plain
    yield row * stages_do * SIZE, plain
    yield lse * FLOAT, 128
    yield lse * FLOAT, 128
    yield (1, 1) if i.sums_in_registers else (ds, _ds_align(i))
    yield ds, _ds_align(i)


def _pipelines(i: BackwardInstance) -> int:
    """A barrier for K and V, two for each stage of Q and of dO, and the scheduler's word: each part begins at 16 bytes."""
    return 16 + 16 * STAGES + 16 * i.a.stages[0] + 16


def _plain_align(i: BackwardInstance) -> int:
    """``SmemAlignmentQKVdO``."""
    return 256 if i.hdim % 256 == 0 else 128


def _ds_align(i: BackwardInstance) -> int:
    """``SmemAlignmentdS``: dS is stored as wide as a warp group computes it."""
    return _swizzled(i.a.tile[1] // (i.a.groups // i.a.atoms[0]) * SIZE)


def _align(i: BackwardInstance) -> int:
    v = _swizzled(i.hdim * SIZE) if i.a.v_in_regs else 0
    return max(_ds_align(i), _plain_align(i), v)


def _epilogue_align(i: BackwardInstance) -> int:
    """``SmemAlignmentdKV``, with grouped heads ``SmemAlignment``."""
    if i.a.gqa:
        return 1024 if i.hdim % 64 == 0 else 512
    if i.a.varlen:  # a swizzle of elements, not of bytes: it repeats after half as much
        return 512 if i.hdim % 64 == 0 else 256
    return _swizzled(i.hdim // (i.a.groups // i.a.atoms[1]) * SIZE)


def _swizzled(row_bytes: int) -> int:
    """``alignment_for_swizzle``: the bytes after which the swizzle of ``ss_smem_selector`` repeats."""
    return next((8 * width for width in (128, 64, 32) if row_bytes % width == 0), 128)


def _end(parts: Iterable[tuple[int, int]]) -> int:
    end = 0
    for size, align in parts:
        end = _up(end, align) + _up(size, align)
    return end


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
