"""The place of every tensor in the arena: offsets, strides, gaps and the guard zones between them.

Standard library only: the worker imports it, and a CPU worker needs no numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from fmha_cli.domain.emulation import Region
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.plan import Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.domain.tensors import Element, Role, TensorShape, shapes_of

GUARD = 16 * 1024
"""Guard bytes before the first, after the last, and between any two tensors: 16 rows of 256 fp32 elements."""

ALIGN = 256
"""Alignment of every tensor in bytes, as device allocators guarantee it."""

GAP = 16
"""Rows with gaps start at multiples of it (vector loads need 16 bytes). A gap has at least this many bytes."""

PAGE = 4096
"""The arena's size is a multiple of it. No workspace can have a larger alignment than a page."""

WORKSPACE_DTYPE = "uint8"
"""``BoundTensor.dtype`` of a workspace: its shape is its number of bytes."""

_GAPPED = frozenset({"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv", "bias", "dbias", "k_new", "v_new"})
"""Tensors that kernels take strides for. Tables, slopes and scales are small and dense in every project."""


@dataclass(frozen=True)
class Slot:
    """One tensor or workspace in the arena.

    Attributes:
        tensor: offset, shape and strides, as the session receives them.
        itemsize: bytes of one element.
        role: None for a workspace.
        extent: bytes from element 0 to the end of the last element's row, gaps included.
    """

    tensor: BoundTensor
    itemsize: int
    role: Role | None
    extent: int

    @property
    def name(self) -> str:
        return self.tensor.name

    @property
    def start(self) -> int:
        return self.tensor.offset

    @property
    def end(self) -> int:
        """First byte after the last element."""
        shape, strides = self.tensor.shape, self.tensor.strides
        if 0 in shape:
            return self.start
        return self.start + (sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1) * self.itemsize

    @property
    def written(self) -> bool:
        """Whether a kernel may write to it."""
        return self.role is not Role.INPUT

    @property
    def dense(self) -> bool:
        return self.tensor.strides == dense_strides(self.tensor.shape)


@dataclass(frozen=True)
class ArenaLayout:
    """All slots in ascending order, and the arena's size in bytes."""

    slots: tuple[Slot, ...]
    size: int

    @property
    def tensors(self) -> Mapping[str, BoundTensor]:
        return MappingProxyType({slot.name: slot.tensor for slot in self.slots})

    def slot(self, name: str) -> Slot:
        """The slot of a name.

        Raises:
            InternalError: the arena holds no such tensor.
        """
        for slot in self.slots:
            if slot.name == name:
                return slot
        raise InternalError(f"the arena holds no tensor {name!r}")

    @property
    def message(self) -> LayoutMessage:
        """The part that the worker needs."""
        regions = tuple(Region(s.name, s.start, s.end, s.written) for s in self.slots if s.end > s.start)
        return LayoutMessage(self.size, tuple(self.tensors.values()), regions)


@dataclass(frozen=True)
class LayoutMessage:
    """A layout as the worker receives it.

    Attributes:
        regions: what a kernel may access: every tensor from its first element to its last one, and the workspaces.
    """

    size: int
    tensors: tuple[BoundTensor, ...]
    regions: tuple[Region, ...]

    def bound(self) -> dict[str, BoundTensor]:
        """The tensors by name."""
        return {tensor.name: tensor for tensor in self.tensors}


def layout_of(problem: Problem, workspaces: Iterable[Workspace] = (), *, gaps: bool = False) -> ArenaLayout:
    """The arena of a problem and its plan's workspaces.

    Args:
        gaps: separate the rows, heads and sequences of the large tensors. This catches a kernel that mistakes a
            row's length for its stride, or that runs over a row's end.

    Raises:
        InternalError: two tensors have one name, or an alignment exceeds a page.
        UnsupportedError: T001, tensors without a form.
    """
    shapes = dict(shapes_of(problem))
    placed: list[Slot] = []
    cursor = GUARD
    for name, shape in shapes.items():
        slot = _place(name, shape, cursor, gaps=gaps and name in _GAPPED)
        placed.append(slot)
        cursor = slot.start + slot.extent + GUARD
    for work in workspaces:
        if work.name in shapes or work.align > PAGE:
            raise InternalError(f"workspace {work.name!r}: its name is taken, or {work.align} is more than a page")
        start = _up(cursor, max(ALIGN, work.align))
        bound = BoundTensor(work.name, start, WORKSPACE_DTYPE, (work.bytes,), (1,))
        placed.append(Slot(bound, 1, None, work.bytes))
        cursor = start + work.bytes + GUARD
    names = [slot.name for slot in placed]
    if len(set(names)) != len(names):
        raise InternalError(f"two workspaces have one name: {', '.join(names)}")
    return ArenaLayout(tuple(placed), _up(cursor, PAGE))


def _place(name: str, shape: TensorShape, cursor: int, *, gaps: bool) -> Slot:
    start, item = _up(cursor, ALIGN), shape.dtype.nbytes
    strides = _gapped_strides(shape.shape, item) if gaps else dense_strides(shape.shape)
    bound = BoundTensor(name, start, shape.dtype.value, shape.shape, strides)
    extent = shape.shape[0] * strides[0] * item if 0 not in shape.shape else 0
    return Slot(bound, item, shape.role, extent)


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a tensor without gaps."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _gapped_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in elements; every axis but the last has a gap of at least ``GAP`` bytes after each of its items."""
    strides = [1]
    for length in reversed(shape[1:]):
        strides.append(_up(length * strides[-1] * itemsize, GAP) // itemsize + GAP // itemsize)
    return tuple(reversed(strides))


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


assert {e.value for e in Element}.isdisjoint({WORKSPACE_DTYPE})
