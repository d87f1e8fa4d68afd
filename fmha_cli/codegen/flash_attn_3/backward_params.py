"""The argument blocks of a backward pass: ``Params`` of ``FlashAttnBwdSm90`` and of the kernels before and after it.

Source, in ``hopper/`` of the sdist of xformers 0.0.34: ``mainloop_bwd_sm90_tma_gmma_ws.hpp``, ``epilogue_bwd.hpp``,
``flash_bwd_kernel_sm90.h``, ``tile_scheduler.hpp``, ``flash_bwd_preprocess_kernel.h``, ``flash_bwd_postprocess_kernel.h``.
"""

from __future__ import annotations

from functools import cache

from fmha_cli.codegen.flash_attn_3.backward_instance import LPT, Backward, ConvertInstance, DotInstance
from fmha_cli.codegen.flash_attn_3.fields import (
    FIRST,
    FIRST_INT,
    HARDWARE,
    MAP,
    NO_DIVMOD,
    NOTHING,
    PLAIN_HARDWARE,
    SINGLE_TILE,
    Divmod,
    Row,
    members,
    shape,
    stride,
    zeros,
)
from fmha_cli.codegen.struct import ArgumentBlock, Float32, Int32, Pointer

_MAINLOOP: tuple[Row, ...] = (
    shape("shape_Q shape_K shape_V shape_dO", 4),
    (Pointer, "ptr_dQaccum", 0),
    shape("shape_dQaccum", 3),
    stride("stride_dQaccum", 2),
    (Divmod, "qhead_per_khead_divmod", NO_DIVMOD),
    (MAP, "tma_load_Q tma_load_dO tma_load_K tma_load_V", ()),
    (Pointer, "ptr_LSE_log2", 0),
    shape("shape_LSE", 3),
    stride("stride_LSE_log2", 2),
    (Pointer, "ptr_dPsum", 0),
    stride("stride_dPsum", 2),
    (Float32, "softmax_scale softmax_scale_log2", 0.0),
    (Int32, "window_size_left window_size_right", 0),
    (Divmod, "attention_chunk_divmod", (0, 0, 0)),
    (Float32, "softcap_val", 0.0),
    (Int32, "num_batch", 0),
    (Pointer, "dq_semaphore cu_seqlens_q cu_seqlens_k seqused_q seqused_k", 0),
)
_SUMS: tuple[Row, ...] = (
    (FIRST, "ptr_dKaccum", 0),
    shape("shape_dKaccum", 3),
    stride("stride_dKaccum", 2),
    (Pointer, "ptr_dVaccum", 0),
    shape("shape_dVaccum", 3),
    stride("stride_dVaccum", 2),
    (Divmod, "qhead_per_khead_divmod", NO_DIVMOD),
    (Pointer, "dk_semaphore dv_semaphore", 0),
    (Int32, "num_batch", 0),
    (Pointer, "cu_seqlens seqused", 0),
)
_LPT: tuple[Row, ...] = (
    (FIRST_INT, "total_blocks", 0),
    (Divmod, "block_divmod head_divmod l2_minor_divmod l2_major_divmod l2_minor_residual_divmod", NO_DIVMOD),
    (Int32, "num_hb_quotient seqlen", 0),
    (Pointer, "cu_seqlens seqused", 0),
)


def _gradients(by_tma: bool) -> tuple[Row, ...]:
    return (
        (FIRST, "ptr_dK", 0),
        shape("shape_dK", 4),
        stride("stride_dK", 3),
        (Pointer, "ptr_dV", 0),
        shape("shape_dV", 4),
        stride("stride_dV", 3),
        (MAP, "tma_store_dK tma_store_dV", ()) if by_tma else (NOTHING, "tma_store_dK tma_store_dV", 0),
        (Pointer, "cu_seqlens seqused", 0),
    )


class Fa3BwdDotParams(ArgumentBlock):
    """``FlashAttnBwdPreprocess::Params``. ``softmax_d``, LSE and its copy are (batch, heads, rows); of packed rows (heads, rows)."""

    rows = (
        (Pointer, "ptr_O", 0),
        shape("shape_O", 4),
        stride("stride_O", 3),
        (Pointer, "ptr_dO", 0),
        stride("stride_dO", 3),
        (Pointer, "ptr_dPsum", 0),
        shape("shape_dPsum", 3),
        stride("stride_dPsum", 2),
        (Pointer, "ptr_LSE", 0),
        stride("stride_LSE", 2),
        (Pointer, "ptr_LSE_log2", 0),
        stride("stride_LSE_log2", 2),
        (Pointer, "ptr_dQaccum", 0),
        shape("shape_dQaccum", 3),
        stride("stride_dQaccum", 2),
        (Int32, "num_batch", 0),
        (Pointer, "dq_semaphore cu_seqlens seqused", 0),
    )


class Fa3BwdConvertParams(ArgumentBlock):
    """``FlashAttnBwdPostprocessConvertdQ::Params``. Its names say dQ where dK or dV is converted too."""

    rows = (
        (Pointer, "ptr_dQaccum", 0),
        shape("shape_dQaccum", 3),
        stride("stride_dQaccum", 2),
        (Pointer, "ptr_dQ", 0),
        shape("shape_dQ", 4),
        stride("stride_dQ", 3),
        (Float32, "softmax_scale", 0.0),
        (Pointer, "cu_seqlens seqused", 0),
    )


def backward_block(i: Backward) -> type:
    """The argument block of a kernel of a backward pass."""
    if isinstance(i, DotInstance):
        return Fa3BwdDotParams
    if isinstance(i, ConvertInstance):
        return Fa3BwdConvertParams
    return _block(i.a.gqa, i.stores_by_tma, i.scheduler == LPT)


@cache
def _block(gqa: bool, by_tma: bool, lpt: bool) -> type:
    rows = (
        *members("mainloop", _MAINLOOP),
        *members("epilogue", _SUMS if gqa else _gradients(by_tma)),
        (HARDWARE if by_tma else PLAIN_HARDWARE, "hw_info", zeros(9)),
        *members("scheduler", _LPT if lpt else SINGLE_TILE),
    )
    return type("Fa3BwdParams", (ArgumentBlock,), {"rows": rows})
