"""Fields of the backward pass's parameter block.

Source: ``csrc/flash_attn/flash_api.cpp``: ``set_params_dgrad``, ``mha_bwd``, ``mha_varlen_bwd``.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.arguments_common import Members, batch_strided, strided
from fmha_cli.backends.flash_attn.scratch import expanded, scratch_of
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.flash_attn.strides import rows
from fmha_cli.backends.gpu.call import Call, Strides


def backward_members(call: Call[Situation]) -> Members:
    """The fields of ``Flash_bwd_params`` besides the common ones. Each of the three kernels reads its own part."""
    s, p = call.situation, call.problem
    out: Members = {
        "unpadded_lse": s.unpadded_lse,
        "rng_state": call.address("rng_state"),
        "dq_accum_ptr": call.address("dq_accum"),
        "dsoftmax_sum": call.address("softmax_d"),
        "deterministic": p.deterministic,
    }
    for name in ("q", "k", "v", "o", "do", "dq", "dk", "dv"):
        at, strides = _gradient(call, name) if name in ("dk", "dv") else (call.address(name), rows(call, name))
        out |= {f"{name}_ptr": at, **strided(name, strides)}
        if not s.packed_q:
            out |= batch_strided(name, strides)
    if p.deterministic:
        out["dq_accum_split_stride"] = scratch_of(s, call.plan.main, 1)["dq_accum"].strides[0]
    return out


def _gradient(call: Call[Situation], name: str) -> tuple[int, Strides]:
    """Address and strides of dK or dV as the kernel writes it.

    The kernel writes one dK and dV for each query head. With grouped heads they go to a workspace.
    """
    workspace = f"{name}_expanded"
    if workspace not in call.tensors:
        return call.address(name), rows(call, name)
    *batch, row, head, _ = expanded(call.problem, name).strides
    return call.address(workspace), Strides(batch=batch[0] if batch else row, head=head, row=row)
