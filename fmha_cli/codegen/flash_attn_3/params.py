"""The argument blocks of kernels, which take them by value: ``FlashAttnFwdSm90::Params`` and ``FlashAttnFwdCombine::Params``.

The block of a forward kernel holds upstream's nested structs as one row of fields: ``mainloop__ptr_Q`` is ``mainloop.ptr_Q``. A CuTe tuple is its
members that are known at run time, in order; those that the type states take no room. A TMA object is the descriptor and
what CuTe keeps beside it, which no kernel reads.

Source, in ``hopper/`` of the sdist of xformers 0.0.34: ``mainloop_fwd_sm90_tma_gmma_ws.hpp``, ``epilogue_fwd.hpp``,
``flash_fwd_kernel_sm90.h``, ``tile_scheduler.hpp``, ``flash_fwd_combine_kernel.h``: ``struct Params``; ``cutlass/kernel_hardware_info.h``.
"""

from __future__ import annotations

from functools import cache

from fmha_cli.codegen.flash_attn_3.backward_instance import BackwardInstance, ConvertInstance, DotInstance
from fmha_cli.codegen.flash_attn_3.backward_params import backward_block
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
from fmha_cli.codegen.flash_attn_3.instance import CombineInstance, Instance, PrepareInstance, TileScheduler
from fmha_cli.codegen.struct import ArgumentBlock, Bool, Float32, Int32, Pointer


def _mainloop(pack: int, qv: bool) -> tuple[Row, ...]:
    return (
        (Pointer, "ptr_Q", 0),
        shape("shape_Q", 4),
        stride("stride_Q", 3),
        shape("shape_Q_packed", 4 + pack),
        stride("stride_Q_packed", 3 + pack),
        (Pointer, "ptr_K", 0),
        shape("shape_K", 4),
        stride("stride_K", 3),
        (Pointer, "ptr_V", 0),
        (Int32, "headdim_v", 0),
        stride("stride_V", 3),
        (Pointer, "ptr_K_new", 0),
        shape("shape_K_new", 4),
        stride("stride_K_new", 3),
        (Pointer, "ptr_V_new", 0),
        stride("stride_V_new", 3),
        (Pointer, "ptr_Qv", 0),
        stride("stride_Qv", 3),
        shape("shape_Qv_packed", 4 + pack),
        stride("stride_Qv_packed", 3 + pack),
        (Pointer, "ptr_rotary_cos", 0),
        shape("shape_rotary", 2),
        stride("stride_rotary_cos", 1),
        (Pointer, "ptr_rotary_sin", 0),
        stride("stride_rotary_sin", 1),
        (Bool, "is_rotary_interleaved", False),
        (Pointer, "ptr_pagetable", 0),
        shape("shape_pagetable", 2),
        stride("stride_pagetable", 1),
        (Divmod, "page_size_divmod blockN_per_page_size_divmod qhead_per_khead_divmod", NO_DIVMOD),
        (MAP, "tma_load_Q tma_load_K tma_load_V tma_load_K_new tma_load_V_new", ()),
        (MAP, "tma_load_Qv", ()) if qv else (NOTHING, "tma_load_Qv", 0),
        (Float32, "softmax_scale_log2", 0.0),
        (Pointer, "ptr_q_descale ptr_k_descale ptr_v_descale", 0),
        stride("stride_q_descale stride_k_descale stride_v_descale", 2),
        (Float32, "softcap_val", 0.0),
        (Int32, "window_size_left window_size_right", 0),
        (Divmod, "attention_chunk_divmod", (0, 0, 0)),
        (Int32, "num_splits", 1),
        (Pointer, "kv_batch_idx cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q seqused_k leftpad_k", 0),
        (Pointer, "seqlens_rotary", 0),
    )


def _epilogue(pack: int, by_tma: bool) -> tuple[Row, ...]:
    return (
        (FIRST, "ptr_O", 0),  # the struct before it has maps, whose alignment rounds up its size
        shape("shape_O", 5),
        stride("stride_O", 4),
        shape("shape_O_packed", 5 + pack),
        stride("stride_O_packed", 4 + pack),
        (Pointer, "ptr_O_partial", 0),
        stride("stride_O_partial", 4),
        stride("stride_O_partial_packed", 4 + pack),
        (Pointer, "ptr_LSE", 0),
        stride("stride_LSE", 3),
        shape("shape_LSE_packed", 4 + pack),
        stride("stride_LSE_packed", 3 + pack),
        (Pointer, "ptr_LSE_partial", 0),
        stride("stride_LSE_partial", 3),
        stride("stride_LSE_partial_packed", 3 + pack),
        (Divmod, "qhead_per_khead_divmod", NO_DIVMOD),
        (MAP, "tma_store_O", ()) if by_tma else (NOTHING, "tma_store_O", 0),
        (Pointer, "cu_seqlens seqused", 0),
    )


_SCHEDULERS: dict[TileScheduler, tuple[Row, ...]] = {
    TileScheduler.STATIC: (
        (Int32, "total_blocks", 0),
        (Divmod, "m_block_divmod head_divmod nsplits_divmod", NO_DIVMOD),
    ),
    TileScheduler.DYNAMIC: (
        (FIRST_INT, "total_blocks", 0),
        (Divmod, "m_block_divmod head_divmod l2_minor_divmod l2_major_divmod l2_minor_residual_divmod", NO_DIVMOD),
        (Int32, "num_hb_quotient", 0),
        (Pointer, "tile_count_semaphore", 0),
    ),
    TileScheduler.SINGLE: SINGLE_TILE,
    TileScheduler.VARLEN: (
        (FIRST_INT, "num_head", 0),
        (Int32, "num_batch qhead_per_khead seqlen", 0),
        (Divmod, "head_divmod nsplits_divmod", NO_DIVMOD),
        (Pointer, "tile_count_semaphore cu_seqlens seqused num_splits_dynamic_ptr num_m_blocks_ptr", 0),
        (Pointer, "varlen_batch_idx_ptr num_nheads_in_l2_ptr", 0),
    ),
}


class Fa3PrepareParams(ArgumentBlock):
    """The parameters of ``prepare_varlen_num_blocks_kernel``, in order."""

    rows = (
        (Int32, "seqlen_q seqlen_k seqlen_k_new", 0),
        (Pointer, "cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q seqused_k leftpad_k", 0),
        (Int32, "num_batch num_head qhead_per_khead num_sm num_splits", 0),
        (Divmod, "blockm_divmod blockn_divmod", NO_DIVMOD),
        (Pointer, "tile_count_semaphore num_m_blocks num_splits_dynamic varlen_batch_idx num_nheads_in_l2", 0),
        (Bool, "enable_pdl is_causal packgqa", False),
        (Int32, "max_kvblocks_in_l2", 0),
    )


class Fa3CombineParams(ArgumentBlock):
    """``FlashAttnFwdCombine::Params``. Parts of O are (splits, batch, heads, rows, columns), those of LSE without the columns."""

    rows = (
        (Pointer, "ptr_O_partial", 0),
        shape("shape_O_partial", 5),
        stride("stride_O_partial", 4),
        (Pointer, "ptr_LSE_partial", 0),
        shape("shape_LSE_partial", 4),
        stride("stride_LSE_partial", 3),
        (Pointer, "ptr_O", 0),
        stride("stride_O", 3),
        (Pointer, "ptr_LSE", 0),
        stride("stride_LSE", 2),
        (Divmod, "seqlen_divmod head_divmod", NO_DIVMOD),
        (Pointer, "cu_seqlens seqused num_splits_dynamic_ptr varlen_batch_idx_ptr semaphore_to_reset", 0),
    )


def block_of(instance: Instance) -> type:
    """The argument block of a kernel."""
    if isinstance(instance, CombineInstance):
        return Fa3CombineParams
    if isinstance(instance, PrepareInstance):
        return Fa3PrepareParams
    if isinstance(instance, BackwardInstance | DotInstance | ConvertInstance):
        return backward_block(instance)
    return _block(instance.a.pack_gqa, instance.a.qv, instance.stores_by_tma, instance.scheduler)


@cache
def _block(pack: bool, qv: bool, by_tma: bool, scheduler: TileScheduler) -> type:
    hardware = HARDWARE if by_tma else PLAIN_HARDWARE
    rows = (
        *members("mainloop", _mainloop(int(pack), qv)),
        *members("epilogue", _epilogue(int(pack), by_tma)),
        (hardware, "hw_info", zeros(9)),
        *members("scheduler", _SCHEDULERS[scheduler]),
    )
    return type("Fa3FwdParams", (ArgumentBlock,), {"rows": rows})


def divmod_of(divisor: int) -> tuple[int, int, int]:
    """``cutlass::FastDivmod``: divisor, multiplier and shift of a divisor of at least 1."""
    if divisor == 1:
        return NO_DIVMOD
    power = 31 + (divisor - 1).bit_length()
    return divisor, -(-(1 << power) // divisor), power - 32
