"""Host-side conversions of sessions, because kernels' conventions differ from the tool's. None of it is timed."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor

F32 = npt.NDArray[np.float32]
Tensors = Mapping[str, BoundTensor]


def alibi_shift(problem: Problem, tensors: Tensors, arena: Bytes) -> F32:
    """slope * (i + delta) in the shape of LSE: (batch, heads, seqlen_q), or packed (heads, total_q).

    Some kernels add slope * j where the tool's formula adds -slope * |i + delta - j|. Under a causal mask both give the
    same softmax, but the kernels' LSE is larger by the result of this function.
    """
    slopes = np.broadcast_to(view(arena, tensors["alibi_slopes"]).astype(np.float64), (problem.batch, problem.heads))
    lengths = zip(problem.query_lengths(), problem.key_lengths(), strict=True)
    rows = [np.arange(q) + problem.mask.delta(q, k) for q, k in lengths]
    planes = [np.multiply.outer(slopes[b], position) for b, position in enumerate(rows)]
    whole = np.concatenate(planes, axis=-1) if problem.mode is Mode.GROUP else np.stack(planes)
    return whole.astype(np.float32)


def head_sums(parts: Array, kv_heads: int, axis: int) -> F32:
    """The sums over the query heads of each key/value head, in single precision.

    Args:
        parts: dK or dV with one slice for each query head along ``axis``.
        axis: the axis of the query heads; a negative number counts from the end.
    """
    axis %= parts.ndim
    shape = parts.shape
    grouped = (*shape[:axis], kv_heads, shape[axis] // kv_heads, *shape[axis + 1 :])
    summed: F32 = parts.astype(np.float32).reshape(grouped).sum(axis=axis + 1, dtype=np.float32)
    return summed


def workspace(tensors: Tensors, arena: Bytes, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """A view of a workspace as a dense tensor. A workspace without elements need not be in the arena.

    Raises:
        InternalError: N020, the arena holds no workspace of that name and size.
    """
    size = prod(shape) * dtype.itemsize
    if not size:
        return np.zeros(shape, dtype)
    found = tensors.get(name)
    if found is None or found.shape[0] < size:
        raise InternalError(f"the plan has no workspace {name} of {size} bytes", code="N020")
    return arena[found.offset : found.offset + size].view(dtype).reshape(shape)
