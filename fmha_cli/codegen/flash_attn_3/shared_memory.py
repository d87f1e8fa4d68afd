"""The dynamic shared memory of a kernel: ``SharedStorageSize``.

Source, in ``hopper/`` of the sdist of xformers 0.0.34: ``SharedStorage`` of ``flash_fwd_kernel_sm90.h``, ``TensorStorage`` of
``mainloop_fwd_sm90_tma_gmma_ws.hpp`` and ``epilogue_fwd.hpp``; ``SharedStorage`` of ``flash_fwd_combine_kernel.h``.
"""

from __future__ import annotations

from fmha_cli.codegen.flash_attn_3.backward_instance import BackwardInstance, ConvertInstance, DotInstance
from fmha_cli.codegen.flash_attn_3.backward_memory import backward_bytes
from fmha_cli.codegen.flash_attn_3.instance import CombineInstance, ForwardInstance, Instance, PrepareInstance

STAGES, COMBINE_STAGES = 2, 4
_BARRIERS = 208
"""Room for the barriers of all pipelines and the scheduler, which the alignment of the tensors rounds up."""


def shared_bytes(instance: Instance) -> int:
    """Bytes of dynamic shared memory of a block."""
    if isinstance(instance, PrepareInstance):
        return 0
    if isinstance(instance, BackwardInstance | DotInstance | ConvertInstance):
        return backward_bytes(instance)
    return _combine_bytes(instance) if isinstance(instance, CombineInstance) else _forward_bytes(instance)


def _combine_bytes(i: CombineInstance) -> int:
    """The LSE of all parts of a tile's rows, the last part of each row that counts, and stages of O's parts."""
    rows, columns = i.a.tile
    return _round(4 * ((rows << i.a.log_max_splits) + rows + COMBINE_STAGES * rows * columns), 128)


def _forward_bytes(i: ForwardInstance) -> int:
    rows, keys = i.a.tile
    size = i.element_bytes
    q, k, v = rows * i.hdim * size, STAGES * keys * i.hdim * size, STAGES * keys * i.hdim_v * size
    transposed = size == 1
    align = max(_alignments(i, transposed))
    parts = [(v, _swizzled(_v_row(i, transposed)))]
    if transposed:
        parts.append((v, _swizzled(i.hdim_v * size)))
    parts += [(q, _alignment(i.a.pack_gqa, i.hdim * size)), (k, _alignment(i.a.paged or i.append, i.hdim * size))]
    parts.append((rows * i.hdim_v * size, _alignment(i.a.pack_gqa, i.hdim_v * size)) if i.a.qv else (1, 1))
    if not i.a.p_in_regs:
        parts.append((rows * keys * size, _swizzled(keys * size)))
    if i.hdim_v > 256 and (transposed or not i.a.p_in_regs):
        parts.append((STAGES * rows * 4, 128))
    elif transposed:
        parts.append((1, 4))
    mainloop = _round(_end(parts), align)
    o = rows * i.hdim_v * 2 if not (i.split and not i.a.varlen) else 1
    epilogue = _round(max(o, 1), 128)
    padding = max(0, epilogue - v)
    tensors = _round(max(_round(max(padding, 1), align) + mainloop, epilogue), max(align, 128))
    return _round(tensors + _BARRIERS, max(align, 128))


def _alignments(i: ForwardInstance, transposed: bool) -> list[int]:
    size, keys = i.element_bytes, i.a.tile[1]
    out = [_alignment(i.a.pack_gqa, i.hdim * size), _alignment(i.a.paged or i.append, i.hdim * size)]
    out.append(_swizzled(_v_row(i, transposed)))
    if transposed:
        out.append(_swizzled(i.hdim_v * size))
    if not (transposed or i.a.p_in_regs):
        out.append(_swizzled(keys * size))
    return out


def _v_row(i: ForwardInstance, transposed: bool) -> int:
    """Bytes along the axis of V that is contiguous in shared memory as the product reads it."""
    return i.a.tile[1] if transposed else i.hdim_v * 2


def _alignment(by_copies: bool, row_bytes: int) -> int:
    """What TMA writes alone is aligned to 128 bytes, and what cp.async writes as its swizzle repeats."""
    return _swizzled(row_bytes) if by_copies else 128


def _swizzled(row_bytes: int) -> int:
    """``alignment_for_swizzle``: the bytes after which the swizzle of ``ss_smem_selector`` repeats."""
    return next((8 * width for width in (128, 64, 32) if row_bytes % width == 0), 128)


def _end(parts: list[tuple[int, int]]) -> int:
    end = 0
    for size, align in parts:
        end = _round(end, align) + size
    return end


def _round(value: int, step: int) -> int:
    return -(-value // step) * step
