"""The outcomes of planted faults, as rows: how each was caught, or why it could not be caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Protocol

from planted_text import Fault, Planted, body


class Caught(StrEnum):
    """How a fault is caught, or why it is not."""

    NAMED = "named"
    """A finding with its kind and an instruction, or a stopped launch whose message names one."""
    NUMBERS = "numbers"
    """Only the results are wrong."""
    HANGS = "hangs"
    NEVER_EXECUTED = "never executed"
    """No wave of this problem executes it."""
    NO_EFFECT = "no effect"
    """Every output is bit-identical: for this problem, the changed kernel computes the same."""
    COVERED = "covered"
    """Other waits or barriers do the same work: removing them too gives findings that their removal alone does not."""
    READS_AT_A_BARRIER = "reads at a barrier"
    """It guards only reads outstanding at a barrier; a finding with ``FMHA_EMU_STRICT``."""
    IDLE = "guards nothing used"
    """A wait after which no register and no LDS word is used too early, with or without the other waits and barriers.

    It orders global memory (not checked), or accesses that are complete because no more may be outstanding than the
    counter counts, or repeated stores of the same bytes.
    """
    ENDS = "end of the kernel"
    """A wait with nothing after it."""
    WITHIN_BUDGET = "within the budget"
    """Other numbers that are equally right: the maximum of a row's scores may be any value with the same scaling."""
    UNEXPLAINED = "unexplained"


EXPLAINED = (
    Caught.NEVER_EXECUTED,
    Caught.NO_EFFECT,
    Caught.COVERED,
    Caught.READS_AT_A_BARRIER,
    Caught.IDLE,
    Caught.ENDS,
    Caught.WITHIN_BUDGET,
)  # fmt: skip

ORDERING = (Planted.WAIT_DROPPED, Planted.WAIT_RAISED, Planted.BARRIER, Planted.SIGNAL, Planted.WAIT)
"""Faults that never change a number here, because loads deliver immediately and waves run up to their barriers."""

_NEAREST = 8
"""The number of other waits and barriers that are tried as cover for one."""

Places = Counter[tuple[str, int]]
Lines = tuple[int, ...]


class Result(Protocol):
    """See ``planted_workers.Seen``."""

    verdict: str
    findings: tuple[dict[str, Any], ...]
    note: str
    outputs: str

    @property
    def places(self) -> Places: ...


class Subject(Protocol):
    """A kernel to plant in; see ``planted_runs.PlantedKernel``."""

    text: str

    @property
    def plain(self) -> Result: ...
    def run(self, *faults: Fault) -> Result: ...
    def reaches(self, fault: Fault) -> bool: ...
    def strictly(self, fault: Fault) -> Places: ...


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
