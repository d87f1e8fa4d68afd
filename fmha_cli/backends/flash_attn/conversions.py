"""Conversions of tensors before and after the kernels, where upstream's conventions differ from the contract's.

- Upstream keeps LSE in a dense workspace, ``softmax_lse``, in its own order of axes.
- The LSE of a row without keys is +inf upstream and -inf in the contract.
- Under a causal mask upstream's ALiBi adds slope * j; the contract's adds -slope * |i + delta - j|. The softmax of a
  row is the same, but its LSE differs by slope * (i + delta). This module adds the difference to the LSE that a
  backward pass reads, and subtracts it from the LSE that a forward pass wrote.
- With grouped heads the backward pass writes dK and dV for each query head. This module sums them in single precision.
- Without keys (forward) or queries (backward) nothing is launched. This module then fills the outputs as upstream's
  host code does.

Every conversion happens in the host's arena, outside the timed launches.
"""

from __future__ import annotations

import numpy as np

from fmha_cli.backends.flash_attn.scratch import expanded, lse_is_packed, lse_scratch
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.gpu.arena_views import DTYPES, Array, Bytes, view
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.host_side import F32, Tensors, alibi_shift, head_sums, workspace
from fmha_cli.domain.features import Alibi, Layout, Mode
from fmha_cli.domain.problem import Problem

_FLOAT = np.dtype(np.float32)


def before_upload(call: Call[Situation], arena: Bytes) -> None:
    """Fill the workspaces that a backward pass reads: LSE and the random state. A forward pass reads none.

    Raises:
        InternalError: a workspace is missing or too small.
    """
    s, p, tensors = call.situation, call.problem, call.tensors
    if not p.direction.backward:
        return
    lse = view(arena, tensors["lse"])
    shifted = lse + alibi_shift(p, tensors, arena) if _is_shifted(s) else lse
    _lse_workspace(call, arena)[...] = np.where(np.isneginf(lse), np.float32(np.inf), shifted)
    workspace(tensors, arena, "rng_state", (2,), np.dtype(np.uint64))[...] = (p.seed, p.offset)


def after_download(call: Call[Situation], arena: Bytes) -> None:
    """Turn what the kernels left in the arena into the contract's outputs.

    Raises:
        InternalError: a workspace is missing or too small.
    """
    if not call.situation.launches:
        _fill_without_launch(call.problem, call.tensors, arena)
    elif call.problem.direction.backward:
        _sum_heads(call.problem, call.tensors, arena)
    elif "lse" in call.tensors:
        _finish_lse(call, arena)


def _lse_workspace(call: Call[Situation], arena: Bytes) -> Array:
    shape = lse_scratch(call.situation, call.plan.main).shape
    return workspace(call.tensors, arena, "softmax_lse", shape, _FLOAT)


def _finish_lse(call: Call[Situation], arena: Bytes) -> None:
    s = call.situation
    values = _in_contract_axes(s, _lse_workspace(call, arena), packed=lse_is_packed(s, call.plan.main))
    finite = values - alibi_shift(call.problem, call.tensors, arena) if _is_shifted(s) else values
    lse = view(arena, call.tensors["lse"])
    lse[...] = np.where(np.isposinf(values), np.float32(-np.inf), finite)


def _in_contract_axes(s: Situation, found: Array, *, packed: bool) -> F32:
    """Reorder the workspace's axes (``lse_scratch``) to (batch, heads, seqlen_q), or (heads, total_q) in group mode."""
    p, values = s.problem, found.astype(np.float32, copy=False)
    if p.mode is Mode.BATCH:
        return values.reshape(p.batch, p.heads, p.seqlen_q)
    if packed:
        return values.reshape(p.heads, sum(p.query_lengths()))
    if s.swapped:
        return values.transpose(1, 2, 0).reshape(p.heads, p.batch)
    rows = [values[b, :, :count] for b, count in enumerate(p.query_lengths())]
    return np.concatenate(rows, axis=1)


def _is_shifted(s: Situation) -> bool:
    """Whether the kernels added slope * j to the scores (``Alibi`` and ``Mask`` with ``Is_causal``)."""
    return s.problem.alibi is not Alibi.NONE and s.mask.is_causal


def _fill_without_launch(problem: Problem, tensors: Tensors, arena: Bytes) -> None:
    """Set O = 0 and LSE = -inf, or backwards dQ = dK = dV = 0."""
    names = ("dq", "dk", "dv") if problem.direction.backward else ("o",)
    for name in names:
        view(arena, tensors[name])[...] = 0
    if "lse" in tensors and problem.direction.forward:
        view(arena, tensors["lse"])[...] = -np.inf


def _sum_heads(problem: Problem, tensors: Tensors, arena: Bytes) -> None:
    """Add the query heads of each key/value head in single precision and round once."""
    for name in ("dk", "dv"):
        if f"{name}_expanded" not in tensors:
            continue
        target = tensors[name]
        source = expanded(problem, name)
        parts = workspace(tensors, arena, f"{name}_expanded", source.shape, DTYPES[target.dtype])
        summed = head_sums(parts, problem.kv_heads, axis=-2)
        if problem.layout is Layout.BHSD:
            summed = np.moveaxis(summed, -2, -3)
        view(arena, target)[...] = summed.astype(DTYPES[target.dtype])
