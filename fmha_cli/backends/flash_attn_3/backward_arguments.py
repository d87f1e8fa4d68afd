"""The argument blocks of a backward pass: those of the main kernel and of the kernels before and after it.

Source, in ``hopper/`` of the sdist of xformers 0.0.34: ``flash_bwd_launch_template.h`` ``run_flash_bwd``;
``to_underlying_arguments`` of ``mainloop_bwd_sm90_tma_gmma_ws.hpp``, ``epilogue_bwd.hpp`` and ``tile_scheduler.hpp``.
"""

from __future__ import annotations

from math import e, log2
from typing import Any

from fmha_cli.backends.flash_attn_3.backward_sizes import (
    DOT,
    DQ_SEMAPHORE,
    DQ_SUMS,
    KEY_SUMS,
    LSE_LOG2,
    SEMAPHORES,
    BackwardSizes,
)
from fmha_cli.backends.flash_attn_3.maps import lse_strides, map_of, strides_of
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.flash_attn_3.backward_instance import (
    LPT,
    Backward,
    BackwardInstance,
    ConvertInstance,
    DotInstance,
    backward_of,
)
from fmha_cli.codegen.flash_attn_3.backward_params import Fa3BwdConvertParams, Fa3BwdDotParams, backward_block
from fmha_cli.codegen.flash_attn_3.instance import algorithm_of
from fmha_cli.codegen.flash_attn_3.params import divmod_of
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage

Members = dict[str, Any]
Launched = Call[Fa3Situation]
WRITES = "writes"
"""The detail of a stage that names its gradients. The last two stages with grouped heads are one kernel, for dK and for dV."""


def backward_instance(kernel: KernelSpec) -> BackwardInstance:
    """The instance of a main kernel.

    Raises:
        TypeError: the kernel is another stage.
    """
    found = backward_of(kernel.family, kernel.signature, algorithm_of(kernel))
    if not isinstance(found, BackwardInstance):
        raise TypeError(f"{kernel.name} is no main kernel")
    return found


def backward_params(stage: Stage, i: Backward, call: Launched) -> object:
    """The stage's argument block."""
    z = BackwardSizes.of(call.situation, backward_instance(call.plan.main))
    if isinstance(i, DotInstance):
        return Fa3BwdDotParams(**_dot(z, call))
    if isinstance(i, ConvertInstance):
        return Fa3BwdConvertParams(**_convert(z, dict(stage.detail)[WRITES], call))
    parts = {"mainloop": _mainloop(i, z, call), "epilogue": _epilogue(i, z, call), "scheduler": _scheduler(i, z, call)}
    values = {f"{part}__{name}": value for part, members in parts.items() for name, value in members.items()}
    return backward_block(i)(hw_info=(0, call.situation.multiprocessors, *(0,) * 7), **values)


def _per_row(z: BackwardSizes, call: Launched) -> tuple[int, int]:
    """Strides of head and batch of ``softmax_d`` and ``softmax_lse_log2``."""
    return z.seqlen_q_rounded, 0 if call.situation.packed_q else call.problem.heads * z.seqlen_q_rounded


def _sums(heads: int, rows: int, z: BackwardSizes, call: Launched) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Shape and strides of a tensor of sums: (rows * head dim, heads, batch)."""
    plane = rows * z.hdim
    return (plane, heads, z.batch), (plane, 0 if call.situation.packed_q else plane * heads)


def _dot(z: BackwardSizes, call: Launched) -> Members:
    p, packed = call.problem, call.situation.packed_q
    shape, strides = _sums(p.heads, z.seqlen_q_rounded, z, call)
    return {
        "ptr_O": call.address("o"),
        "shape_O": (z.seqlen_q, p.hdim_v, p.heads, z.batch),
        "stride_O": strides_of(call.rows("o")),
        "ptr_dO": call.address("do"),
        "stride_dO": strides_of(call.rows("do")),
        "ptr_dPsum": call.address(DOT),
        "shape_dPsum": (z.seqlen_q_rounded, p.heads, z.batch),
        "stride_dPsum": _per_row(z, call),
        "ptr_LSE": call.address("lse"),
        "stride_LSE": lse_strides(call, (z.seqlen_q, 0 if packed else p.heads * z.seqlen_q)),
        "ptr_LSE_log2": call.address(LSE_LOG2),
        "stride_LSE_log2": _per_row(z, call),
        "ptr_dQaccum": call.address(DQ_SUMS),
        "shape_dQaccum": shape,
        "stride_dQaccum": strides,
        "num_batch": p.batch,
        "dq_semaphore": call.address(DQ_SEMAPHORE),
        "cu_seqlens": call.address("cu_seqlens_q"),
    }


def _convert(z: BackwardSizes, name: str, call: Launched) -> Members:
    """The sums of dQ are of unscaled products of K; those of dK and dV are final."""
    p, of_keys = call.problem, name != "dq"
    heads, rows = (p.kv_heads, z.seqlen_k_rounded) if of_keys else (p.heads, z.seqlen_q_rounded)
    shape, strides = _sums(heads, rows, z, call)
    width = p.hdim_v if name == "dv" else p.hdim
    return {
        "ptr_dQaccum": call.address(f"{name}_accum"),
        "shape_dQaccum": shape,
        "stride_dQaccum": strides,
        "ptr_dQ": call.address(name),
        "shape_dQ": (z.seqlen_k if of_keys else z.seqlen_q, width, heads, z.batch),
        "stride_dQ": strides_of(call.rows(name)),
        "softmax_scale": 1.0 if of_keys else single(p.scale),
        "cu_seqlens": call.address("cu_seqlens_k" if of_keys else "cu_seqlens_q"),
    }


def _mainloop(i: BackwardInstance, z: BackwardSizes, call: Launched) -> Members:
    s, p, (rows, keys) = call.situation, call.problem, i.a.tile
    shapes = {
        "Q": (z.seqlen_q, p.hdim, p.heads, z.batch),
        "dO": (z.seqlen_q, p.hdim_v, p.heads, z.batch),
        "K": (z.seqlen_k, p.hdim, p.kv_heads, z.batch),
        "V": (z.seqlen_k, p.hdim_v, p.kv_heads, z.batch),
    }
    parts = i.a.groups // i.a.atoms[1], i.a.groups // i.a.atoms[2]  # of a tile's columns, by the layouts of dKV and dQ
    tiles = {
        "Q": (i.hdim // parts[0], rows),
        "dO": (i.hdim // parts[0], rows),
        "K": (i.hdim // parts[1], keys),
        "V": (i.hdim, keys),
    }
    sums, strides = _sums(p.heads, z.seqlen_q_rounded, z, call)
    scale, softcap = single(p.scale), single(p.softcap)
    out: Members = {
        "ptr_dQaccum": call.address(DQ_SUMS),
        "shape_dQaccum": sums,
        "stride_dQaccum": strides,
        "qhead_per_khead_divmod": divmod_of(s.groups),
        "ptr_LSE_log2": call.address(LSE_LOG2),
        "shape_LSE": (z.seqlen_q_rounded, p.heads, z.batch),
        "stride_LSE_log2": _per_row(z, call),
        "ptr_dPsum": call.address(DOT),
        "stride_dPsum": _per_row(z, call),
        "softmax_scale": scale,
        "softmax_scale_log2": single((softcap or scale) * log2(e)),
        "window_size_left": s.window.left,
        "window_size_right": s.window.right,
        "softcap_val": single(scale / softcap) if softcap else 0.0,
        "num_batch": p.batch,
        "dq_semaphore": call.address(DQ_SEMAPHORE),
        "cu_seqlens_q": call.address("cu_seqlens_q"),
        "cu_seqlens_k": call.address("cu_seqlens_k"),
    }
    for name, shape in shapes.items():
        held = name.lower()
        out[f"shape_{name}"] = shape
        out[f"tma_load_{name}"] = map_of(i.dtype, call.address(held), shape, call.rows(held), *tiles[name])
    return out


def _epilogue(i: BackwardInstance, z: BackwardSizes, call: Launched) -> Members:
    p, out = call.problem, Members(cu_seqlens=call.address("cu_seqlens_k"))
    if i.a.gqa:
        shape, strides = _sums(p.kv_heads, z.seqlen_k_rounded, z, call)
        for name, sums in zip(("dKaccum", "dVaccum"), KEY_SUMS, strict=True):
            out |= {f"ptr_{name}": call.address(sums), f"shape_{name}": shape, f"stride_{name}": strides}
        semaphores = {name: call.address(name) for name in SEMAPHORES}
        return out | semaphores | {"qhead_per_khead_divmod": divmod_of(call.situation.groups), "num_batch": p.batch}
    columns = i.hdim // (i.a.groups // i.a.atoms[1])
    for name, width in (("dK", p.hdim), ("dV", p.hdim_v)):
        address, strides_kv = call.address(name.lower()), call.rows(name.lower())
        sizes = (z.seqlen_k, width, p.heads, z.batch)
        out |= {f"ptr_{name}": address, f"shape_{name}": sizes, f"stride_{name}": strides_of(strides_kv)}
        if i.stores_by_tma:
            out[f"tma_store_{name}"] = map_of(i.dtype, address, sizes, strides_kv, columns, i.a.tile[1])
    return out


def _scheduler(i: BackwardInstance, z: BackwardSizes, call: Launched) -> Members:
    s, p = call.situation, call.problem
    common = {"seqlen": s.seqlen_k, "cu_seqlens": call.address("cu_seqlens_k")}
    if i.scheduler != LPT:
        return common | {
            "num_blocks": z.key_tiles,
            "num_head": p.heads,
            "num_batch": p.batch,
            "num_splits": 1,
            "qhead_per_khead": s.groups,
        }
    swizzle, planes = z.swizzle(s), p.heads * p.batch
    return common | {
        "total_blocks": z.key_tiles * planes,
        "block_divmod": divmod_of(z.key_tiles),
        "head_divmod": divmod_of(p.heads),
        "l2_minor_divmod": divmod_of(swizzle),
        "l2_major_divmod": divmod_of(swizzle * z.key_tiles),
        "l2_minor_residual_divmod": divmod_of(planes % swizzle or 1),
        "num_hb_quotient": planes // swizzle,
    }
