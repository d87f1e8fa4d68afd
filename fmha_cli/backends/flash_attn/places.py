"""``Call``: what the parameter blocks of a plan are made from, and where everything lies on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.errors import InternalError
from fmha_cli.features import Layout
from fmha_cli.plan import Plan
from fmha_cli.problem import Problem
from fmha_cli.protocols import BoundTensor

_OUTPUT_LAYOUT = frozenset({"o", "do"})


@dataclass(frozen=True)
class Strides:
    """Strides in elements. ``batch`` of a packed tensor is that of its rows, as ``tensor.stride(0)`` is upstream."""

    batch: int
    row: int
    head: int

    def exchanged(self, groups: int, packed: bool) -> Strides:
        """Of q or o with one row a sequence, its ``groups`` query heads for each key/value head taken as rows."""
        return Strides(self.row if packed else self.batch, self.head, self.head * groups)


@dataclass(frozen=True)
class Call:
    """One binding of a plan.

    Attributes:
        tensors: tensors and workspaces in the arena.
        arena: device address of the arena's first byte.
        auxiliaries: device addresses of the small arrays that the session made (``auxiliary``), by name.
    """

    plan: Plan
    situation: Situation
    tensors: Mapping[str, BoundTensor]
    arena: int
    auxiliaries: Mapping[str, int]

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    def tensor(self, name: str) -> BoundTensor:
        """A tensor that must be there.

        Raises:
            InternalError: it is not.
        """
        if name not in self.tensors:
            raise InternalError(f"the arena holds no {name}", where="flash_attn")
        return self.tensors[name]

    def address(self, name: str) -> int:
        """Device address of element 0 of a tensor, workspace or auxiliary array; 0 when there is none.

        A tensor without elements has an address all the same: upstream tells by null pointers which features are on.
        """
        if name in self.auxiliaries:
            return self.auxiliaries[name]
        bound = self.tensors.get(name)
        return 0 if bound is None else self.arena + bound.offset

    def rows(self, name: str) -> Strides:
        """Strides of q, k, v, o, do, a gradient or an appended tensor."""
        p = self.problem
        return row_strides(self.tensor(name), p.layout_out if name in _OUTPUT_LAYOUT else p.layout)

    def queries(self, name: str) -> Strides:
        """Strides of q or o as the kernels see them: exchanged where ``situation.swapped``."""
        strides = self.rows(name)
        if not self.situation.swapped:
            return strides
        return strides.exchanged(self.situation.groups, packed=len(self.tensor(name).shape) == 3)

    def keys(self, name: str) -> Strides:
        """Strides of k or v; ``batch`` is a page's with a paged cache."""
        if not self.problem.paged:
            return self.rows(name)
        page, row, head, _ = _contiguous(self.tensor(name)).strides
        return Strides(page, row, head)


def row_strides(tensor: BoundTensor, layout: Layout) -> Strides:
    """Strides of a batched or packed tensor.

    Raises:
        InternalError: the last axis is not contiguous.
    """
    *batch, first, second, _ = _contiguous(tensor).strides
    head, row = (first, second) if layout is Layout.BHSD else (second, first)
    return Strides(batch[0] if batch else row, row, head)


def _contiguous(tensor: BoundTensor) -> BoundTensor:
    if tensor.strides[-1] != 1 and tensor.shape[-1] > 1:
        raise InternalError(f"{tensor.name}: the last axis must be contiguous", where="flash_attn")
    return tensor
