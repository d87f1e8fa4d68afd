"""The outcomes of faults planted in PTX, as rows: how each was caught, or why it could not be caught.

Every reason is found by running the kernel again. ``assembly_rows.Caught`` has the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tests.support.planted.outcomes import Caught, Places, Result
from tests.support.planted.statements import DROPS, ORDERING, Fault

SEEDS = (1, 2)
"""Seeds of the emulator's order of warps that are tried in addition to 0."""

GUARD_FALSE = "its predicate is false"
NEAREST = 6
"""The number of other waits, barriers and fences that are tried as cover for one, each alone; then 2, 4, ... together."""

ENDLESS = "TIMED_OUT", 0
"""The place of a launch that never ends."""

Known = dict[tuple[tuple[int, str], ...], Places]
"""The findings of runs with several faults, by their lines and texts."""


class Subject(Protocol):
    """A kernel to plant in; see ``ptx_runs.PlantedPtx``."""

    @property
    def plain(self) -> Result: ...
    def run(self, *faults: Fault, seed: int = 0) -> Result: ...
    def reaches(self, fault: Fault, *, guarded: bool = False) -> bool: ...


def rows(kernel: Subject, chosen: Sequence[Fault], among: Sequence[Fault]) -> Iterator[dict[str, Any]]:
    """One row for each fault of ``chosen``: where it is, what it was, how it was caught.

    Args:
        among: all faults of the kernel, in which to look for cover. Faults that are no valid PTX have a row whose ``caught``
            is None.
    """
    known: Known = {}
    for fault in chosen:
        row: dict[str, Any] = {
            "fault": fault.kind.value,
            "line": fault.line + 1,
            "before": fault.before,
            "after": fault.after,
            "caught": None,
            "why": "",
            "verdict": "",
            "kinds": [],
            "note": "",
        }
        try:
            seen = kernel.run(fault)
        except ValueError as refused:
            yield {**row, "note": str(refused)}
            continue
        caught, why, seen = _caught(kernel, fault, seen, among, known)
        kinds = sorted({kind for kind, _ in seen.places.keys() - kernel.plain.places.keys()})
        yield {**row, "caught": caught.value, "why": why, "verdict": seen.verdict, "kinds": kinds, "note": seen.note}


def _by_itself(kernel: Subject, seen: Result) -> Caught | None:
    """How one run shows that something is wrong; findings of the kernel itself do not."""
    if seen.places.keys() - kernel.plain.places.keys() or seen.verdict == "LAUNCH_FAILED":
        return Caught.NAMED
    if seen.verdict == "TIMED_OUT":
        return Caught.HANGS
    right = seen.verdict in ("PASSED", kernel.plain.verdict) and not seen.wrong
    return None if right else Caught.NUMBERS


def _caught(
    kernel: Subject, fault: Fault, seen: Result, among: Sequence[Fault], known: Known
) -> tuple[Caught, str, Result]:
    if found := _by_itself(kernel, seen):
        return found, "", seen
    if not kernel.reaches(fault):
        return Caught.NEVER_EXECUTED, "", seen
    guard = fault.before.split()[0]
    kept = not fault.after or fault.after.startswith(f"{guard} ") or f" {guard} " in fault.after
    if guard.startswith("@") and kept and not kernel.reaches(fault, guarded=True):
        return Caught.NEVER_EXECUTED, GUARD_FALSE, seen
    if fault.kind not in ORDERING:
        same = seen.outputs == kernel.plain.outputs
        return (Caught.NO_EFFECT if same else Caught.WITHIN_BUDGET), "", seen
    same = seen.outputs == kernel.plain.outputs
    for seed in SEEDS:
        again = kernel.run(fault, seed=seed)
        if found := _by_itself(kernel, again):
            return found, f"seed {seed}", again
        same &= again.outputs == kernel.plain.outputs
    if why := _cover(kernel, fault, among, known):
        return Caught.COVERED, why, seen
    return (Caught.IDLE if same else Caught.UNEXPLAINED), "", seen


def _cover(kernel: Subject, fault: Fault, among: Sequence[Fault], known: Known) -> str | None:
    """Look for waits, barriers and fences that do the fault's work: the nearest ones alone, then more and more of them."""
    others = sorted(
        (d for d in among if d.kind in DROPS and d.line != fault.line), key=lambda d: abs(d.line - fault.line)
    )
    groups = [*([other] for other in others[:NEAREST]), *(others[:n] for n in (2, 4, NEAREST, len(others)))]
    for near in groups:
        near = list({other.line: other for other in reversed(near)}.values())
        lines = tuple(sorted(other.line + 1 for other in near))
        texts = tuple(sorted((other.line, other.after) for other in near))
        if texts not in known:
            known[texts] = _places(kernel, near)
        if ENDLESS in known[texts]:  # a run that was killed leaves no findings, with the fault or without it
            continue
        if _places(kernel, [fault, *near]) - known[texts]:
            return f"lines {', '.join(map(str, lines[:4]))}{', ...' if len(lines) > 4 else ''}"
    return None


def _places(kernel: Subject, faults: Sequence[Fault]) -> Places:
    """The findings of a run, and a stopped launch as one of them."""
    seen = kernel.run(*faults)
    stopped = Counter({(seen.verdict, 0): 1}) if seen.verdict in ("LAUNCH_FAILED", "TIMED_OUT") else Counter()
    return Counter(dict.fromkeys(seen.places, 1)) + stopped
