"""Strides of bound tensors as CK names them: (batch, head, row), in elements. In a packed batch, rows count across all
sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from fmha_cli.backends.gpu.call import Strides, row_strides
from fmha_cli.domain.features import Bias, Layout, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor


def row_count(problem: Problem) -> int:
    """Rows of Q in one head's slice: seqlen_q, or the packed total."""
    return sum(problem.query_lengths()) if problem.mode is Mode.GROUP else problem.seqlen_q


INDEX_END = 1 << 31
"""Kernels hold strides as ``ck_tile::index_t``, a signed 32-bit integer."""


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous tensor."""
    return clear_unused_strides(shape, tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))))


def clear_unused_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, with 0 for an axis of length 1 whose stride no kernel could hold; that stride is never used."""
    pairs = zip(shape, strides, strict=True)
    return tuple(0 if length == 1 and stride >= INDEX_END else stride for length, stride in pairs)


def head_axis(layout: Layout, rank: int) -> int:
    """The head axis of a tensor of rows (batched or packed)."""
    return rank - 3 if layout is Layout.BHSD else rank - 2


def swap_heads(shape: tuple[int, ...], problem: Problem) -> tuple[int, ...]:
    """A K- or V-like shape with the query heads in place of the key/value heads."""
    axis = head_axis(problem.layout, len(shape))
    return (*shape[:axis], problem.heads, *shape[axis + 1 :])


def holdable(tensors: Mapping[str, BoundTensor]) -> dict[str, BoundTensor]:
    """The tensors with strides that argument blocks can hold (:func:`clear_unused_strides`)."""
    return {
        name: replace(bound, strides=clear_unused_strides(bound.shape, bound.strides))
        for name, bound in tensors.items()
    }


def dense_strides(name: str, shape: Sequence[int], layout: Layout) -> Strides:
    """Strides of a C-contiguous tensor of rows, batched or packed."""
    return row_strides(BoundTensor(name, 0, "uint8", tuple(shape), dense(shape)), layout)


def plane_strides(tensor: BoundTensor, rank: Bias) -> Strides:
    """Strides of a bias of a rank; 0 along broadcast axes and along those of one sequence or head."""
    batch, head, row, _ = tensor.strides
    return Strides(
        batch if tensor.shape[0] > 1 else 0, head if tensor.shape[1] > 1 else 0, row if rank.value[2] == "s" else 0
    )


def lse_strides(tensors: Mapping[str, BoundTensor]) -> Strides:
    """Strides of lse: (batch, heads, rows) or, packed, (heads, rows). All are 0 without an lse."""
    if "lse" not in tensors:
        return Strides(0, 0, 0)
    *batch, head, row = tensors["lse"].strides
    return Strides(batch[0] if batch else 0, head, row)
