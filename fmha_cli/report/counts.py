"""A comparison, in words, of what two kernels executed on an emulated device. The device counts instructions, not time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from fmha_cli.domain.emulation import Executed

_FURTHER = {
    "matrix_flops": "matrix FLOP",
    "global_read_bytes": "bytes read",
    "global_written_bytes": "bytes written",
    "global_sectors": "sectors",
    "scratch_read_bytes": "scratch bytes read",
    "scratch_written_bytes": "scratch bytes written",
    "lds_accesses": "LDS accesses",
    "lds_conflict_cycles": "LDS conflict cycles",
    "barriers": "barriers",
}
"""Counts other than instructions that are named where they differ."""


def compared_counts(mine: Sequence[Executed], other: Sequence[Executed], against: str) -> str | None:
    """One line: ``executed 12,345 instructions, +2.9 % against K (12,001): valu +300, lds +44; barriers -2``.

    Every launch counts once, as in ``executed`` of a record. None if one side executed nothing.
    """
    if not mine or not other:
        return None
    here, there = reduce(Executed.plus, mine), reduce(Executed.plus, other)
    classes = {
        name: here.classes.get(name, 0) - there.classes.get(name, 0) for name in sorted({*here.classes, *there.classes})
    }
    parts = [f"{name} {by:+,}" for name, by in sorted(classes.items(), key=lambda item: -abs(item[1])) if by]
    known = (name for name in _FURTHER if None not in (getattr(here, name), getattr(there, name)))
    further = {_FURTHER[name]: getattr(here, name) - getattr(there, name) for name in known}
    parts += [f"{text} {by:+,}" for text, by in further.items() if by]
    counted = f"executed {here.instructions:,} instructions"
    if not parts and here.instructions == there.instructions:
        return f"{counted}, every count the same as {against}"
    share = f"{here.instructions / there.instructions - 1:+.2%} " if there.instructions else ""
    return f"{counted}, {share}against {against} ({there.instructions:,}): {', '.join(parts)}"
