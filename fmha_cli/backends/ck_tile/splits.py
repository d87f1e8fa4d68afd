"""How many pieces the keys are split into: upstream's heuristic, in its own single precision.

Source: ``example/ck_tile/01_fmha/fmha_fwd_runner.hpp``, ``num_splits_heuristic`` and
``override_num_splits_if_necessary`` (baseline).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from struct import pack, unpack

from fmha_cli.problem import Problem

MAX_SPLITS = 128
"""Most splits that a combine kernel is compiled for (``fmha_fwd_splitkv_combine_oneshot_``)."""
ROWS_PER_BLOCK = 64
"""``kM0`` of ``override_num_splits_if_necessary``."""
BLOCKS_PER_MULTIPROCESSOR = 2
BUSY = 0.8
"""Share of the slots that counts as a full device: no splitting from there on."""
GOOD_ENOUGH = 0.85
"""Share of the best efficiency with which the smallest count is taken."""
LOG2_MAX_SPLITS = ((8, 3), (16, 4), (32, 5), (64, 6), (128, 7))
"""``kLogMaxSplits`` of the combine kernel's instance, by the largest count that it takes."""


@dataclass(frozen=True)
class Splits:
    """A split count and what it rests on."""

    count: int
    why: str


def splits_for(problem: Problem, multiprocessors: int) -> Splits:
    """The count that the user gave, or upstream's choice for ``--splits auto``.

    With dropout upstream leaves the count at "automatic", which is no splitting.
    """
    if problem.splits:
        return Splits(problem.splits, f"--splits {problem.splits}")
    if problem.dropout:
        return Splits(1, "dropout: keys are not split")
    blocks = problem.batch * problem.heads * -(-max(problem.query_lengths(), default=0) // ROWS_PER_BLOCK)
    slots = multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    count = heuristic(blocks, slots, MAX_SPLITS)
    return Splits(count, f"upstream's heuristic: {blocks} blocks of {ROWS_PER_BLOCK} rows on {slots} slots")


def heuristic(blocks: int, slots: int, most: int) -> int:
    """The smallest count whose efficiency, waves / ceil(waves), is within 85 % of the best; 1 on a busy device."""
    if blocks < 1 or float(blocks) >= single(single(BUSY) * slots):
        return 1
    efficiency = [_efficiency(blocks * count, slots) for count in range(1, min(most, slots) + 1)]
    enough = GOOD_ENOUGH * max(efficiency, default=0.0)
    return next((count for count, value in enumerate(efficiency, 1) if value >= enough), 1)


def log2_max_splits(count: int) -> int | None:
    """``kLogMaxSplits`` of the combine kernel for a count; None above :data:`MAX_SPLITS`."""
    return next((log2 for most, log2 in LOG2_MAX_SPLITS if count <= most), None)


def _efficiency(blocks: int, slots: int) -> float:
    waves = single(single(blocks) / slots)
    return single(waves / ceil(waves))


def single(value: float) -> float:
    """The nearest single-precision number."""
    rounded: float = unpack("<f", pack("<f", value))[0]
    return rounded
