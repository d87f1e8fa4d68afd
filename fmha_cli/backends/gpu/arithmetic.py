"""Arithmetic of upstream host code: single precision, and the common heuristic for split counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf
from struct import pack, unpack

GRID_END = 1 << 16
"""The end of the blocks along y and z of a grid: ``cudaDevAttrMaxGridDimY``, ``hipDeviceProp_t.maxGridSize``."""
SMALLEST_NORMAL = 2.0**-126
"""In single precision. Fast math takes smaller numbers as 0."""
BUSY = 0.8
"""Share of the slots from which a device counts as full and keys are not split (a float constant upstream)."""
GOOD_ENOUGH = 0.85
"""Share of the best efficiency that a count must reach to be taken (a double constant upstream)."""


@dataclass(frozen=True)
class Splits:
    """A split count and the reason for it."""

    count: int
    why: str


def split_heuristic(blocks: int, slots: int, counts: Iterable[int]) -> int:
    """The smallest count whose efficiency, waves / ceil(waves), is at least 85 % of the best.

    The result is 1 on a full device, without blocks, and without counts.

    Source: ``num_splits_heuristic`` in the host code of several projects.

    Args:
        blocks: blocks of an unsplit launch.
        slots: blocks that the device runs at once.
        counts: eligible split counts, smallest first.
    """
    if blocks < 1 or single(blocks) >= single(single(BUSY) * single(slots)):
        return 1
    efficiency = {count: _efficiency(blocks * count, slots) for count in counts}
    enough = GOOD_ENOUGH * max(efficiency.values(), default=0.0)
    return next((count for count, value in efficiency.items() if value >= enough), 1)


def _efficiency(blocks: int, slots: int) -> float:
    waves = single(single(blocks) / single(slots))
    return single(waves / ceil(waves))


def single(value: float) -> float:
    """The nearest single-precision number; infinite beyond the largest."""
    try:
        rounded: float = unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return inf if value > 0 else -inf
    return rounded
