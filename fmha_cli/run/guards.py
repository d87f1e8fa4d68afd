"""Guard zones: all bytes of the arena that belong to no element, and the search for writes to them; and the two byte patterns that mean
"never written", with their meaning as elements.

Both patterns are NaN in every float type that a kernel writes (fp32, fp16, bf16, fp8_e4m3fn, fp8_e5m2), except in the fp8 types of
the kind fnuz, where they are the largest numbers. As an element of 16 or 32 bits neither is the NaN that arithmetic makes
(0x7fc00000, 0xffc00000 and their short forms; on NVIDIA GPUs 0x7fffffff and 0x7fff), so a NaN that a kernel computed
differs from memory that it never wrote. Guards hold one pattern and outputs the other, and they swap from run to run. A kernel
that copies a guard over another guard is therefore caught in the second run at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum

import numpy as np
import numpy.typing as npt

from fmha_cli.run.layout import ArenaLayout, Slot

Bytes = npt.NDArray[np.uint8]

_UNSIGNED: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class Pattern(Enum):
    """A 16-bit word that fills memory."""

    FFFF = 0xFFFF
    FF7F = 0x7FFF
    """In memory (little-endian) the bytes ff 7f."""

    @property
    def other(self) -> Pattern:
        return Pattern.FF7F if self is Pattern.FFFF else Pattern.FFFF

    def element(self, itemsize: int) -> int:
        """The pattern as one element; a byte takes the word's high byte, which is NaN in both fp8 types. 0x7fff gives
        way to the NaN next to it.
        """
        word = self.value - (self is Pattern.FF7F)
        return {1: word >> 8, 2: word, 4: word << 16 | word}[itemsize]

    def bytes(self, start: int, count: int) -> Bytes:
        """``count`` bytes of the pattern as it is in memory from byte offset ``start`` on."""
        words = np.full(count // 2 + 2, self.value, dtype="<u2").view(np.uint8)
        return words[start % 2 : start % 2 + count]


def as_words(array: npt.NDArray[np.generic]) -> npt.NDArray[np.unsignedinteger]:
    """The elements as unsigned integers of the same size; a view, any strides."""
    return array.view(_UNSIGNED[array.dtype.itemsize])


def fill_words(array: npt.NDArray[np.generic], pattern: Pattern) -> None:
    """Set every element to the pattern."""
    as_words(array)[...] = pattern.element(array.dtype.itemsize)


def holds(array: npt.NDArray[np.generic], pattern: Pattern) -> npt.NDArray[np.bool_]:
    """Where elements still hold the pattern."""
    same: npt.NDArray[np.bool_] = as_words(array) == pattern.element(array.dtype.itemsize)
    return same


Offsets = npt.NDArray[np.int64]

REPORTED = 16
"""The most violations that are reported; more would only describe a kernel that writes everywhere."""

_WIDEST = 4
"""Bytes of the widest element."""


class GuardSide(StrEnum):
    """The position of the changed byte relative to the tensor."""

    BEFORE = "before"
    AFTER = "after"
    GAP = "gap"


@dataclass(frozen=True)
class Violation:
    """One stretch of bytes outside all elements that changed.

    Attributes:
        tensor: the nearest tensor.
        side: where the stretch is relative to that tensor.
        element: distance in elements of the tensor: 1 is the element right before its first or right after its last
            one. In a gap, the flat index of the element that the gap follows.
        offset: of the first changed byte in the arena.
        bytes: number of bytes from the first to the last changed one.
    """

    tensor: str
    side: GuardSide
    element: int
    offset: int
    bytes: int

    def text(self) -> str:
        """``2 bytes, one element after the end of o``: how much was changed, and where."""
        amount = f"{self.bytes} byte{'' if self.bytes == 1 else 's'}"
        if self.side is GuardSide.GAP:
            return f"{amount} in the gap after element {self.element} of {self.tensor}"
        far = "one element" if self.element == 1 else f"{self.element} elements"
        edge = "start" if self.side is GuardSide.BEFORE else "end"
        return f"{amount}, {far} {self.side.value} the {edge} of {self.tensor}"


@dataclass(frozen=True)
class Zone:
    """Equal byte ranges that repeat along strides: ``count`` times ``length`` bytes for a gap, once for a guard."""

    offset: int
    length: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def view(self, arena: Bytes) -> Bytes:
        """(*shape, length) view of the zone's bytes."""
        shape, strides = (*self.shape, self.length), (*self.strides, 1)
        return np.lib.stride_tricks.as_strided(arena[self.offset :], shape, strides)


def zones_of(layout: ArenaLayout) -> tuple[Zone, ...]:
    """Every byte that belongs to no element, each in exactly one zone."""
    ends = [0, *(slot.start + slot.extent for slot in layout.slots)]
    starts = [*(slot.start for slot in layout.slots), layout.size]
    guards = [Zone(end, start - end) for end, start in zip(ends, starts, strict=True) if start > end]
    gaps = [zone for slot in layout.slots if not slot.dense for zone in _gaps(slot)]
    return (*guards, *gaps)


def _gaps(slot: Slot) -> Iterator[Zone]:
    shape, item = slot.tensor.shape, slot.itemsize
    strides = [stride * item for stride in slot.tensor.strides]
    if 0 in shape:
        return
    for axis in range(len(shape) - 1):
        used = shape[axis + 1] * strides[axis + 1]
        if strides[axis] > used:
            outer = tuple(strides[: axis + 1])
            yield Zone(slot.start + used, strides[axis] - used, shape[: axis + 1], outer)


def fill_zones(arena: Bytes, zones: tuple[Zone, ...], pattern: Pattern) -> None:
    """Set every guard and gap to the pattern."""
    for zone in zones:
        zone.view(arena)[...] = pattern.bytes(zone.offset, zone.length)


def find_violations(
    arena: Bytes, layout: ArenaLayout, zones: tuple[Zone, ...], pattern: Pattern
) -> tuple[Violation, ...]:
    """Every stretch of changed bytes in the zones, at most ``REPORTED``, in the order of the arena.

    The strides of a gap are even (``layout.GAP``), so one row of the pattern fits all its repetitions.
    """
    changed = [_changed(arena, zone, pattern) for zone in zones]
    return tuple(_stretches(layout, np.sort(np.concatenate(changed))))


def _changed(arena: Bytes, zone: Zone, pattern: Pattern) -> Offsets:
    different = zone.view(arena) != pattern.bytes(zone.offset, zone.length)
    if not different.any():
        return np.zeros(0, np.int64)
    offsets: Offsets = np.argwhere(different) @ np.array([*zone.strides, 1]) + zone.offset
    return offsets


def _stretches(layout: ArenaLayout, changed: Offsets) -> Iterator[Violation]:
    """Neighbouring changed bytes as one violation, including bytes between them that happen to equal the pattern."""
    breaks = np.flatnonzero(np.diff(changed) > _WIDEST) + 1
    for part in np.split(changed, breaks[:REPORTED])[:REPORTED]:
        if len(part):
            yield _named(layout, int(part[0]), int(part[-1]) + 1)


def _named(layout: ArenaLayout, first: int, end: int) -> Violation:
    slot = min(layout.slots, key=lambda s: max(s.start - first, first - s.end + 1, 0))  # the nearest
    size = end - first
    if first < slot.start:  # counted from the byte nearest to the tensor
        return Violation(slot.name, GuardSide.BEFORE, -(-(slot.start - (end - 1)) // slot.itemsize), first, size)
    if first >= slot.end:
        return Violation(slot.name, GuardSide.AFTER, (first - slot.end) // slot.itemsize + 1, first, size)
    return Violation(slot.name, GuardSide.GAP, _element_before(slot, first), first, size)


def _element_before(slot: Slot, offset: int) -> int:
    """Flat index (C order of the shape) of the last element that begins at or before ``offset``."""
    rest, index = (offset - slot.start) // slot.itemsize, 0
    whole = False
    for length, stride in zip(slot.tensor.shape, slot.tensor.strides, strict=True):
        at = length - 1 if whole else min(rest // stride, length - 1)
        whole = whole or rest // stride > at
        rest -= at * stride
        index = index * length + at
    return index
