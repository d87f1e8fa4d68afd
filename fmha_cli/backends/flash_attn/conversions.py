"""Conversions of tensors before and after the kernels, where upstream's conventions differ from the contract's.

- Upstream keeps LSE in a dense workspace, ``softmax_lse``, in its own order of axes.
- The LSE of a row without keys is +inf upstream and -inf in the contract.
- Under a causal mask upstream's ALiBi adds slope * j; the contract's adds -slope * |i + delta - j|. The softmax of a
  row is the same, but its LSE differs by slope * (i + delta). This module adds the difference to the LSE that a
  backward pass reads, and subtracts it from the LSE that a forward pass wrote.
- With grouped heads the backward pass writes dK and dV for each query head. They are summed in single precision.

Every conversion happens in the host's arena, outside the timed launches.
"""

from __future__ import annotations

import numpy as np

from fmha_cli.backends.cuda.copies import lse_in, lse_rows
from fmha_cli.backends.flash_attn.scratch import expand_heads, lse_is_packed, lse_scratch
from fmha_cli.backends.flash_attn.situation import FlashSituation
from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.host_side import F32, alibi_shift, workspace
from fmha_cli.domain.features import Alibi, Mode

_FLOAT = np.dtype(np.float32)


def before_upload(call: Call[FlashSituation], arena: Bytes) -> None:
    """Fill the workspaces that a backward pass reads: LSE and the random state. A forward pass reads none.

    After a forward pass of the same plan, the LSE is its kernels' result there. K445 sees to it that they run.
    """
    s, p, tensors = call.situation, call.problem, call.tensors
    if not p.direction.backward:
        return
    if not call.follows:
        lse = lse_in(call, arena, "softmax_lse", lse_scratch(s, call.plan.main).shape, np.inf)
        if _is_shifted(s):
            lse += alibi_shift(p, tensors, arena)
    workspace(tensors, arena, "rng_state", (2,), np.dtype(np.uint64))[...] = (p.seed, p.offset)


def after_download(call: Call[FlashSituation], arena: Bytes) -> None:
    """Turn the kernels' results in the arena into the contract's outputs."""
    if call.problem.direction.backward:
        expand_heads(call.problem).copy_out(call, arena)
    elif "lse" in call.tensors:
        _finish_lse(call, arena)


def _lse_workspace(call: Call[FlashSituation], arena: Bytes) -> Array:
    shape = lse_scratch(call.situation, call.plan.main).shape
    return workspace(call.tensors, arena, "softmax_lse", shape, _FLOAT)


def _finish_lse(call: Call[FlashSituation], arena: Bytes) -> None:
    s = call.situation
    values = _in_contract_axes(s, _lse_workspace(call, arena), packed=lse_is_packed(s, call.plan.main))
    finite = values - alibi_shift(call.problem, call.tensors, arena) if _is_shifted(s) else values
    lse = view(arena, call.tensors["lse"])
    lse[...] = np.where(np.isposinf(values), np.float32(-np.inf), finite)


def _in_contract_axes(s: FlashSituation, found: Array, *, packed: bool) -> F32:
    """Reorder the workspace's axes (``lse_scratch``) to (batch, heads, seqlen_q), or (heads, total_q) in group mode."""
    p, values = s.problem, found.astype(np.float32, copy=False)
    if p.mode is Mode.BATCH:
        return values.reshape(p.batch, p.heads, p.seqlen_q)
    if packed:
        return values.reshape(p.heads, sum(p.query_lengths()))
    if s.swapped:
        return values.transpose(1, 2, 0).reshape(p.heads, p.batch)
    return np.concatenate(lse_rows(p, values), axis=1)


def _is_shifted(s: FlashSituation) -> bool:
    """Whether the kernels added slope * j to the scores (``Alibi`` and ``Mask`` with ``Is_causal``)."""
    return s.problem.alibi is not Alibi.NONE and s.mask.is_causal
