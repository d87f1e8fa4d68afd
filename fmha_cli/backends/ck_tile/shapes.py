"""Axes of bound tensors as CK names them: (batch, nhead, row) strides in elements, rows counted over a packed batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fmha_cli.errors import InternalError
from fmha_cli.features import Layout, Mode
from fmha_cli.problem import Problem
from fmha_cli.protocols import BoundTensor


@dataclass(frozen=True)
class Strides:
    """Strides in elements; ``batch`` is 0 for packed tensors, which have no such axis."""

    batch: int
    nhead: int
    row: int


def row_count(problem: Problem) -> int:
    """Rows of Q that one head's slice holds: seqlen_q, or the packed total."""
    return sum(problem.query_lengths()) if problem.mode is Mode.GROUP else problem.seqlen_q


INDEX_END = 1 << 31
"""Kernels hold strides as ``ck_tile::index_t``, 32 bits with a sign."""


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous tensor."""
    return needed(shape, tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))))


def needed(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, 0 where an axis of length 1 has one that no kernel could hold: it is never taken."""
    pairs = zip(shape, strides, strict=True)
    return tuple(0 if length == 1 and stride >= INDEX_END else stride for length, stride in pairs)


def head_axis(layout: Layout, rank: int) -> int:
    """The axis of heads of a row tensor (batched or packed)."""
    return rank - 3 if layout is Layout.BHSD else rank - 2


def heads_swapped(shape: tuple[int, ...], problem: Problem) -> tuple[int, ...]:
    """A K- or V-like shape with the query heads for the key/value heads."""
    axis = head_axis(problem.layout, len(shape))
    return (*shape[:axis], problem.heads, *shape[axis + 1 :])


def row_strides(tensor: BoundTensor, layout: Layout) -> Strides:
    """Strides of q, k, v, o and their gradients, batched or packed.

    Raises:
        InternalError: the last axis is not contiguous.
    """
    return strides_of(tensor.name, tensor.shape, tensor.strides, layout)


def strides_of(name: str, shape: Sequence[int], strides: Sequence[int], layout: Layout) -> Strides:
    """As :func:`row_strides`, of a shape and its strides."""
    if strides[-1] != 1 and shape[-1] > 1:
        raise InternalError(f"{name}: the last axis must be contiguous")
    *batch, first, second, _ = needed(shape, strides)
    head, row = (first, second) if layout is Layout.BHSD else (second, first)
    return Strides(batch[0] if batch else 0, head, row)


def page_strides(tensor: BoundTensor) -> Strides:
    """Strides of a paged cache (pages, page, kv_heads, d): ``batch`` is a page's, ``row`` a key's."""
    page, row, head, _ = needed(tensor.shape, tensor.strides)
    return Strides(page, head, row)


def plane_strides(tensor: BoundTensor) -> Strides:
    """Strides of a bias (1|batch, 1|heads, rows, keys): 0 along axes that are broadcast."""
    batch, head, row, _ = (
        0 if length == 1 else stride for length, stride in zip(tensor.shape, tensor.strides, strict=True)
    )
    return Strides(batch, head, row if tensor.shape[2] > 1 else tensor.strides[2])


def lse_strides(tensor: BoundTensor) -> Strides:
    """Strides of lse (batch, heads, rows) or, packed, (heads, rows)."""
    *batch, head, row = needed(tensor.shape, tensor.strides)
    return Strides(batch[0] if batch else 0, head, row)
