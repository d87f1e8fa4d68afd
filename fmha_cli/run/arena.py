"""``Arena``: one shared-memory block with every tensor of a row, guarded, poisoned and watched.

The parent owns it and does all filling, poisoning and checking; the worker only maps it. No check therefore
depends on the process that ran the kernel. What a row needs at least is known before anything is allocated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import count
from math import prod
from types import MappingProxyType

import numpy as np

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import size
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.tensors import Element, Role, shapes_of
from fmha_cli.oracle.tensors import Array, Inputs, numpy_dtype
from fmha_cli.run.guards import (
    Bytes,
    Pattern,
    Violation,
    as_words,
    fill_words,
    fill_zones,
    find_violations,
    holds,
    zones_of,
)
from fmha_cli.run.layout import ArenaLayout, Slot
from fmha_cli.run.protocol import map_shared, shared_file

_BLOCK = 1 << 17
"""64-bit words compared at a time, so the result of a comparison stays in the cache."""

_NUMBERS = count(1)


@dataclass(frozen=True)
class ChangedInput:
    """An input that changed during a run: name, elements changed, and the index of the first one."""

    tensor: str
    count: int
    first: tuple[int, ...]

    def text(self) -> str:
        elements = "1 element" if self.count == 1 else f"{self.count} elements"
        return f"input {self.tensor} was written to: {elements}, first at {list(self.first)}"


@dataclass(frozen=True)
class Unwritten:
    """An output that a run left untouched in places: where it still holds the poison."""

    tensor: str
    where: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

    @property
    def count(self) -> int:
        return int(self.where.sum())


class Arena(AbstractContextManager["Arena"]):
    """Shared memory for one layout. Use it as a context manager, or call :meth:`close`.

    The order of calls: :meth:`write` the inputs, then for every run :meth:`prepare`, the run itself,
    :meth:`violations`, :meth:`changed_inputs` and :meth:`read`. It is not safe for several threads.

    Args:
        also: further bytes of host memory that the caller is going to need, for the reference.

    Raises:
        MemoryError: there is too little memory for it, the inputs that it is compared with, the outputs that are read, and
            ``also``. Nothing is allocated then.
    """

    def __init__(self, layout: ArenaLayout, *, also: int = 0) -> None:
        self.layout = layout
        self.id = next(_NUMBERS)
        self.fd = shared_file(layout.size, also=also + copies(layout))
        """The descriptor that the worker maps."""
        try:
            self._map = map_shared(self.fd, layout.size)
        except MemoryError:
            os.close(self.fd)
            raise
        self._bytes: Bytes = np.frombuffer(self._map, dtype=np.uint8)
        self._zones = zones_of(layout)
        self._inputs: dict[str, Array] = {}
        self._appended: dict[str, Array] = {}
        self._guard = Pattern.FFFF

    @property
    def guard_bytes(self) -> int:
        """Bytes that belong to no element, and are watched."""
        return sum(zone.length * prod(zone.shape) for zone in self._zones)

    @property
    def closed(self) -> bool:
        return self.fd < 0

    def view(self, name: str) -> Array:
        """The tensor in the arena, in the problem's axes. It is a view, so every run changes it."""
        return self._view(self.layout.slot(name))

    def _view(self, slot: Slot) -> Array:
        dtype = np.dtype(np.uint8) if slot.role is None else numpy_dtype(Element(slot.tensor.dtype))
        strides = tuple(stride * slot.itemsize for stride in slot.tensor.strides)
        start = self._bytes[slot.start : slot.start + max(slot.end - slot.start, slot.itemsize)]
        return np.ndarray(slot.tensor.shape, dtype, start, strides=strides)

    def write(self, inputs: Inputs, appended: Mapping[str, Array] = MappingProxyType({})) -> None:
        """Write the inputs of the following runs. They are kept by reference for comparison: do not change them.

        Args:
            appended: of a cache that a run appends to, by name: the rows that it may write, booleans in the tensor's shape
                without its last axis.

        Raises:
            InternalError: a tensor is missing or unknown, or its shape or type differs from the layout's.
        """
        wanted = {s.name for s in self.layout.slots if s.role in (Role.INPUT, Role.INOUT)}
        if set(inputs) != wanted:
            raise InternalError(f"inputs {sorted(inputs)} for an arena that takes {sorted(wanted)}")
        for name, array in inputs.items():
            view = self.view(name)
            if array.shape != view.shape or array.dtype != view.dtype:
                raise InternalError(f"{name}: {array.dtype} {array.shape} for {view.dtype} {view.shape}")
            view[...] = array
        self._inputs, self._appended = dict(inputs), dict(appended)

    def prepare(self, run: int = 0) -> None:
        """Before every run: restore guards, gaps and inputs, and poison outputs and workspaces.

        Args:
            run: number of the run; even and odd runs exchange the patterns of guards and outputs.
        """
        self._guard = Pattern.FFFF if run % 2 == 0 else Pattern.FF7F
        fill_zones(self._bytes, self._zones, self._guard)
        for slot in self.layout.slots:
            if slot.role is Role.OUTPUT:
                fill_words(self._view(slot), self._guard.other)
            elif slot.role is None:
                self._bytes[slot.start : slot.end] = self._guard.other.bytes(slot.start, slot.end - slot.start)
        for slot in self.layout.slots:
            known = self._inputs.get(slot.name)
            if known is not None and (slot.role is Role.INOUT or _difference(slot.name, self._view(slot), known)):
                self._view(slot)[...] = known

    def violations(self) -> tuple[Violation, ...]:
        """The stretches outside all elements to which the last run wrote."""
        return find_violations(self._bytes, self.layout, self._zones, self._guard)

    def changed_inputs(self) -> tuple[ChangedInput, ...]:
        """Inputs whose bits differ from what was written, outside of the rows that a kernel appends to."""
        roles = {slot.name: slot.role for slot in self.layout.slots if slot.name in self._inputs}
        names = [name for name, role in roles.items() if role is Role.INPUT]
        names += [name for name, role in roles.items() if role is Role.INOUT and name in self._appended]
        found = (_difference(n, self.view(n), self._inputs[n], self._appended.get(n)) for n in names)
        return tuple(change for change in found if change is not None)

    def unwritten(self) -> tuple[Unwritten, ...]:
        """Outputs in which an element still holds the poison of the last :meth:`prepare`."""
        out = []
        for slot in self.layout.slots:
            if slot.role is Role.OUTPUT:
                where = holds(self._view(slot), self._guard.other)
                if where.any():
                    out.append(Unwritten(slot.name, where))
        return tuple(out)

    def read(self) -> dict[str, Array]:
        """Dense copies of everything that a run may write, except workspaces."""
        slots = (s for s in self.layout.slots if s.role in (Role.OUTPUT, Role.INOUT))
        return {slot.name: np.array(self._view(slot), order="C") for slot in slots}

    def close(self) -> None:
        """Release the memory. Views that are still in use keep it until they are gone."""
        if not self.closed:
            os.close(self.fd)
            self.fd = -1
        self._bytes = np.zeros(0, np.uint8)
        with suppress(BufferError):
            self._map.close()

    def __exit__(self, *exc: object) -> None:
        self.close()


def _difference(name: str, actual: Array, expected: Array, but: Array | None = None) -> ChangedInput | None:
    """Bitwise comparison, ``but`` for some rows: NaN equals itself."""
    a, b = as_words(actual), as_words(expected)
    if _equal(a, b):
        return None
    at = np.argwhere(a != b if but is None else (a != b) & ~but[..., None])
    if not len(at):
        return None
    return ChangedInput(name, len(at), tuple(int(n) for n in at[0]))


def _equal(a: Array, b: Array) -> bool:
    if a.nbytes % 8 or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return bool(np.array_equal(a, b))
    x, y = a.reshape(-1).view(np.uint64), b.reshape(-1).view(np.uint64)
    blocks = (slice(n, n + _BLOCK) for n in range(0, len(x), _BLOCK))
    return all(np.array_equal(x[block], y[block]) for block in blocks)


_F64 = 8

TOO_LARGE = "M003"
"""Id of the Reason for a row that does not fit into memory."""


def shortage(fault: MemoryError, what: str) -> Reason:
    """The Reason why a row was not run.

    Args:
        what: what the memory is for.
    """
    return Reason(
        TOO_LARGE, f"no memory for {what}: {fault}", "a smaller batch or length; --no-check needs no reference"
    )


def check_device(plan: Plan, device: DeviceFacts) -> None:
    """Raises MemoryError: every tensor once, with the workspaces, is more than the device has."""
    if 0 < device.memory_bytes < plan.predicted_bytes and not device.emulated:
        have, need = size(device.memory_bytes), size(plan.predicted_bytes)
        raise MemoryError(f"at least {need} are needed on {device.id}, which has {have}")


def copies(layout: ArenaLayout) -> int:
    """Bytes of the inputs that an arena is compared with, and of the outputs that are read from it."""
    return sum(slot.extent * (2 if slot.written and slot.role is not None else 1) for slot in layout.slots)


def reference_bytes(problem: Problem) -> int:
    """Bytes of the float64 reference: K and V of one head; for a backward pass all gradients and their noise too.

    Raises:
        UnsupportedError: T001, tensors without a form.
    """
    one_head = problem.seqlen_k * (problem.hdim + problem.hdim_v) * _F64
    shapes = shapes_of(problem)
    gradients = [prod(shapes[name].shape) for name in ("dq", "dk", "dv", "dbias") if name in shapes]
    return one_head + 2 * _F64 * sum(gradients)
