"""Fields of the backward pass' block: ``set_params_dgrad``, ``mha_bwd``, ``mha_varlen_bwd`` of ``flash_api.cpp``."""

from __future__ import annotations

from fmha_cli.backends.flash_attn.arguments_common import Members, batch_strided, strided
from fmha_cli.backends.flash_attn.places import Call, Strides
from fmha_cli.backends.flash_attn.scratch import expanded, scratch_of


def backward_members(call: Call) -> Members:
    """``Flash_bwd_params`` beside the common fields; the three kernels read their own part of it."""
    s, p = call.situation, call.problem
    out: Members = {
        "unpadded_lse": s.unpadded_lse,
        "rng_state": call.address("rng_state"),
        "dq_accum_ptr": call.address("dq_accum"),
        "dsoftmax_sum": call.address("softmax_d"),
        "deterministic": p.deterministic,
    }
    for name in ("q", "k", "v", "o", "do", "dq", "dk", "dv"):
        at, strides = _gradient(call, name) if name in ("dk", "dv") else (call.address(name), call.rows(name))
        out |= {f"{name}_ptr": at, **strided(name, strides)}
        if not s.packed_q:
            out |= batch_strided(name, strides)
    if p.deterministic:
        out["dq_accum_split_stride"] = scratch_of(s, call.plan.main, 1)["dq_accum"].strides[0]
    return out


def _gradient(call: Call, name: str) -> tuple[int, Strides]:
    """Where dK or dV goes, of which the kernel writes one for each query head: with grouped heads to a workspace."""
    workspace = f"{name}_expanded"
    if workspace not in call.tensors:
        return call.address(name), call.rows(name)
    *batch, row, head, _ = expanded(call.problem, name).strides
    return call.address(workspace), Strides(batch[0] if batch else row, row, head)
