"""The outcomes of planted faults, as rows: how each was caught, or why it could not be caught."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from tests.support.planted.assembly import Fault, Planted, body
from tests.support.planted.outcomes import Caught, Places, Result, sampled

ORDERING = (Planted.WAIT_DROPPED, Planted.WAIT_RAISED, Planted.BARRIER, Planted.SIGNAL, Planted.WAIT)
"""Faults that never change a number here, because loads deliver immediately and waves run up to their barriers."""

_NEAREST = 8
"""The number of other waits and barriers that are tried as cover for one."""

Lines = tuple[int, ...]


class Subject(Protocol):
    """A kernel to plant in; see ``assembly_runs.PlantedKernel``."""

    text: str

    @property
    def plain(self) -> Result: ...
    def run(self, *faults: Fault) -> Result: ...
    def reaches(self, fault: Fault) -> bool: ...
    def strictly(self, fault: Fault) -> Places: ...


def chosen_of(every: Sequence[Fault], wanted: str, count: int | None, registers: int, seed: int) -> list[Fault]:
    """The faults of the wanted classes, with at most ``registers`` of the hundreds of renumbered registers."""
    kept = [f for f in every if wanted in f.kind.value]
    many = [f for f in kept if f.kind is Planted.RENUMBERED]
    few = [f for f in kept if f.kind is not Planted.RENUMBERED]
    return sampled(few, count, seed) + sampled(many, min(registers, count or registers), seed)


def rows(kernel: Subject, every: Sequence[Fault], among: Iterable[Fault]) -> Iterator[dict[str, Any]]:
    """One row for each fault of ``every``: where it is, what it was, how it was caught.

    Args:
        among: all faults of the kernel, in which to look for cover. Faults that do not assemble are left out.
    """
    drops = [f for f in among if f.kind in (Planted.WAIT_DROPPED, Planted.BARRIER)]
    known: dict[Lines, Places] = {}
    for fault in every:
        try:
            seen = kernel.run(fault)
        except ValueError:
            continue
        caught, why = _caught(kernel, fault, seen, drops, known)
        yield {
            "fault": fault.kind.value,
            "line": fault.lines[0] + 1,
            "before": fault.before,
            "after": fault.after,
            "caught": caught.value,
            "why": why,
            "verdict": seen.verdict,
            "kinds": sorted({finding["kind"] for finding in seen.findings}),
            "first": seen.findings[0] if seen.findings else None,
            "note": seen.note,
        }


def _caught(
    kernel: Subject, fault: Fault, seen: Result, drops: Sequence[Fault], known: dict[Lines, Places]
) -> tuple[Caught, str]:
    if seen.findings or seen.verdict == "LAUNCH_FAILED":
        return Caught.NAMED, ""
    if seen.verdict != "PASSED":
        return (Caught.HANGS if seen.verdict == "TIMED_OUT" else Caught.NUMBERS), ""
    if not kernel.reaches(fault):
        return Caught.NEVER_EXECUTED, ""
    if fault.kind not in ORDERING:
        return (Caught.NO_EFFECT if seen.outputs == kernel.plain.outputs else Caught.WITHIN_BUDGET), ""
    following = next((c for c in body(kernel.text) if c.line > fault.lines[-1]), None)
    if following is not None and following.mnemonic == "s_endpgm":
        return Caught.ENDS, ""
    if places := kernel.strictly(fault):
        return Caught.READS_AT_A_BARRIER, ", ".join(sorted({kind for kind, _ in places}))
    return _covered(kernel, fault, drops, known)


def _covered(kernel: Subject, fault: Fault, drops: Sequence[Fault], known: dict[Lines, Places]) -> tuple[Caught, str]:
    """Look for waits and barriers that do the fault's work: the nearest ones separately, then more and more of them."""
    others = [d for d in drops if not set(d.lines) & set(fault.lines)]
    others.sort(key=lambda d: abs(d.lines[0] - fault.lines[0]))
    for near in (*([other] for other in others[:_NEAREST]), *(others[:n] for n in (2, 4, _NEAREST, len(others)))):
        lines = tuple(other.lines[0] + 1 for other in near)
        if lines not in known:
            known[lines] = kernel.run(*near).places
        if kernel.run(fault, *near).places - known[lines]:
            return Caught.COVERED, f"lines {', '.join(map(str, lines[:4]))}{', ...' if len(lines) > 4 else ''}"
    if fault.kind in (Planted.WAIT_DROPPED, Planted.WAIT_RAISED):
        return Caught.IDLE, ""
    return Caught.UNEXPLAINED, ""
