"""What the device's tensors need before and after the kernels, where upstream's conventions differ from the contract's.

- LSE lies in a dense workspace, ``softmax_lse``, in upstream's own order of axes.
- A row without keys has LSE +inf there, -inf in the contract.
- ALiBi under a causal mask: upstream adds slope * j, the contract -slope * |i + delta - j|. The rows' softmax is the
  same, their LSE differs by slope * (i + delta): added to what the backward reads, taken from what the forward wrote.
- With grouped heads the backward writes dK and dV for each query head: they are summed here, in single precision.
- Without keys (forward) or queries (backward) nothing is launched: the outputs are filled here, as upstream's host
  code fills them.

All of it happens in the host's arena, outside the timed launches.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.arena_views import DTYPES, Array, Bytes, view
from fmha_cli.backends.flash_attn.scratch import Scratch, expanded, lse_is_packed, lse_scratch
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.errors import InternalError
from fmha_cli.features import Alibi, Layout, Mode
from fmha_cli.plan import Plan
from fmha_cli.problem import Problem
from fmha_cli.protocols import BoundTensor

F32 = npt.NDArray[np.float32]
Tensors = Mapping[str, BoundTensor]

_FLOAT = np.dtype(np.float32)


def before_upload(plan: Plan, situation: Situation, tensors: Tensors, arena: Bytes) -> None:
    """Fill the workspaces that a backward pass reads: LSE and the random state. A forward pass reads none.

    Raises:
        InternalError: a workspace is missing or too small.
    """
    if not plan.problem.direction.backward:
        return
    lse = view(arena, tensors["lse"])
    shifted = lse + _shift(situation, tensors, arena) if _is_shifted(situation) else lse
    with_rows = np.where(np.isneginf(lse), np.float32(np.inf), shifted)
    workspace(arena, tensors, "softmax_lse", lse_scratch(situation, plan.main), _FLOAT)[...] = with_rows
    state = workspace(arena, tensors, "rng_state", Scratch((2,), 8), np.dtype(np.uint64))
    state[...] = (plan.problem.seed, plan.problem.offset)


def after_download(plan: Plan, situation: Situation, tensors: Tensors, arena: Bytes) -> None:
    """Turn what the kernels left in the arena into the contract's outputs.

    Raises:
        InternalError: a workspace is missing or too small.
    """
    if not situation.launches:
        _fill_without_launch(plan.problem, tensors, arena)
    elif plan.problem.direction.backward:
        _sum_heads(plan.problem, tensors, arena)
    elif "lse" in tensors:
        _finish_lse(plan, situation, tensors, arena)


def workspace(arena: Bytes, tensors: Tensors, name: str, scratch: Scratch, dtype: np.dtype[np.generic]) -> Array:
    """A workspace as the dense tensor that it is; one without elements needs no bytes.

    Raises:
        InternalError: N020, the arena holds none of that size.
    """
    size = int(np.prod(scratch.shape)) * dtype.itemsize
    if not size:
        return np.zeros(scratch.shape, dtype)
    found = tensors.get(name)
    if found is None or found.shape[0] < size:
        raise InternalError(f"the plan has no workspace {name} of {size} bytes", code="N020", where="flash_attn")
    return arena[found.offset : found.offset + size].view(dtype).reshape(scratch.shape)


def _finish_lse(plan: Plan, s: Situation, tensors: Tensors, arena: Bytes) -> None:
    found = workspace(arena, tensors, "softmax_lse", lse_scratch(s, plan.main), _FLOAT)
    lse = view(arena, tensors["lse"])
    values = _in_contract_axes(s, found, packed=lse_is_packed(s, plan.main))
    finite = values - _shift(s, tensors, arena) if _is_shifted(s) else values
    lse[...] = np.where(np.isposinf(values), np.float32(-np.inf), finite)


def _in_contract_axes(s: Situation, found: Array, *, packed: bool) -> F32:
    """(batch, heads, seqlen_q), or (heads, total_q) in group mode, of the workspace's axes (``lse_scratch``)."""
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
    """Whether scores got slope * j (``Alibi`` and ``Mask`` with ``Is_causal``)."""
    return s.problem.alibi is not Alibi.NONE and s.mask.is_causal


def _shift(s: Situation, tensors: Tensors, arena: Bytes) -> F32:
    """slope * (i + delta) in LSE's shape; delta as the kernels take it, seqlen_k - seqlen_q."""
    p = s.problem
    slopes = np.broadcast_to(view(arena, tensors["alibi_slopes"]).astype(np.float64), (p.batch, p.heads))
    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    planes = [np.multiply.outer(slopes[b], np.arange(q) + k - q) for b, (q, k) in enumerate(lengths)]
    whole = np.concatenate(planes, axis=-1) if p.mode is Mode.GROUP else np.stack(planes)
    return whole.astype(np.float32)


def _fill_without_launch(problem: Problem, tensors: Tensors, arena: Bytes) -> None:
    """O = 0 and LSE = -inf; dQ = dK = dV = 0."""
    names = ("dq", "dk", "dv") if problem.direction.backward else ("o",)
    for name in names:
        view(arena, tensors[name])[...] = 0
    if "lse" in tensors and problem.direction.forward:
        view(arena, tensors["lse"])[...] = -np.inf


def _sum_heads(problem: Problem, tensors: Tensors, arena: Bytes) -> None:
    """Add the query heads of each key/value head, in single precision, rounded once."""
    for name in ("dk", "dv"):
        if f"{name}_expanded" not in tensors:
            continue
        target = tensors[name]
        source = expanded(problem, name)
        parts = workspace(arena, tensors, f"{name}_expanded", source, DTYPES[target.dtype])
        *axes, heads, width = source.shape
        grouped = parts.reshape(*axes, problem.kv_heads, heads // problem.kv_heads, width)
        summed = grouped.astype(np.float32).sum(axis=-2, dtype=np.float32)
        if problem.layout is Layout.BHSD:
            summed = np.moveaxis(summed, -2, -3)
        view(arena, target)[...] = summed.astype(DTYPES[target.dtype])
