"""``Call``: the inputs of a pass's argument blocks, and the device addresses of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import Layout
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor

S = TypeVar("S")


@dataclass(frozen=True)
class Strides:
    """Strides in elements.

    Attributes:
        batch: from one sequence or page to the next; 0 for a packed tensor, which has no batch axis.
        head: from one head to the next.
        row: from one row to the next.
    """

    batch: int
    head: int
    row: int


@dataclass(frozen=True)
class Call(Generic[S]):
    """One binding of a plan of one pass. A plan of both passes has two calls (:func:`calls_of`).

    Attributes:
        situation: what the backend's host code derives from the problem.
        tensors: tensors and workspaces in the arena, by name.
        arena: device address of the arena's first byte.
        auxiliaries: device addresses of the small arrays that kernels read in addition to the tensors, by name.
        follows: whether this is the backward pass after a forward pass of the same plan: O, LSE and the workspaces hold
            the forward kernels' results on the device, and the host must not supply them.
    """

    plan: Plan
    situation: S
    tensors: Mapping[str, BoundTensor]
    arena: int
    auxiliaries: Mapping[str, int]
    follows: bool = False

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    def tensor(self, name: str) -> BoundTensor:
        """A tensor that the arena must hold.

        Raises:
            InternalError: the arena does not hold it.
        """
        if name not in self.tensors:
            raise InternalError(f"the arena holds no {name}", where=self.plan.main.backend)
        return self.tensors[name]

    def address(self, name: str) -> int:
        """Device address of element 0 of a tensor, workspace or auxiliary array; 0 if there is none of that name.

        A tensor without elements still has an address, between its guards. Kernels need a pointer even without keys,
        and some take a null pointer to mean that a feature is off.
        """
        if name in self.auxiliaries:
            return self.auxiliaries[name]
        bound = self.tensors.get(name)
        return 0 if bound is None else self.arena + bound.offset

    def rows(self, name: str) -> Strides:
        """Strides of q, k, v, o, do, a gradient or an appended tensor."""
        return row_strides(self.tensor(name), self.problem.layout_of(name))

    def sizes(self, name: str) -> tuple[int, int, int, int]:
        """Batch, heads, rows and head dim of a batched tensor of rows, whatever its layout."""
        batch, first, second, width = self.tensor(name).shape
        heads, rows = (first, second) if self.problem.layout_of(name) is Layout.BHSD else (second, first)
        return batch, heads, rows, width

    def keys(self, name: str) -> Strides:
        """Strides of k or v. With a paged cache ``batch`` is the stride from page to page."""
        return page_strides(self.tensor(name)) if self.problem.paged else self.rows(name)


def calls_of(
    plan: Plan,
    situation_of: Callable[[Plan], S],
    tensors: Mapping[str, BoundTensor],
    arena: int,
    places_of: Callable[[Plan, S], Mapping[str, int]],
) -> tuple[Call[S], ...]:
    """The call of each pass of a plan, in launch order.

    Args:
        situation_of: returns what the backend's host code derives from the problem of a pass.
        places_of: returns device addresses for the small arrays of a pass, by name.
    """
    calls: list[Call[S]] = []
    for part in plan.passes():
        situation = situation_of(part)
        places = places_of(part, situation)
        calls.append(Call(part, situation, tensors, arena, places, follows=bool(calls)))
    return tuple(calls)


def row_strides(tensor: BoundTensor, layout: Layout) -> Strides:
    """Strides of a tensor of rows, batched or packed.

    Raises:
        InternalError: the last axis is not contiguous.
    """
    *batch, first, second, _ = _contiguous(tensor).strides
    head, row = (first, second) if layout is Layout.BHSD else (second, first)
    return Strides(batch[0] if batch else 0, head, row)


def page_strides(tensor: BoundTensor) -> Strides:
    """Strides of a paged cache (pages, page, kv_heads, d).

    Raises:
        InternalError: the last axis is not contiguous.
    """
    page, row, head, _ = _contiguous(tensor).strides
    return Strides(page, head, row)


def _contiguous(tensor: BoundTensor) -> BoundTensor:
    if tensor.strides[-1] != 1 and tensor.shape[-1] > 1:
        raise InternalError(f"{tensor.name}: the last axis must be contiguous")
    return tensor
