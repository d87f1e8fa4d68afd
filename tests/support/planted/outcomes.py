"""How planted faults are caught, samples of them, and their counts."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from tests.checks.tables import table


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

Places = Counter[tuple[str, int]]


class Result(Protocol):
    """See ``workers.Seen``."""

    verdict: str
    findings: tuple[dict[str, Any], ...]
    note: str
    outputs: str
    wrong: bool

    @property
    def places(self) -> Places: ...


class Planting(Protocol):
    """A fault of a class at a place of a text."""

    @property
    def kind(self) -> StrEnum: ...


F = TypeVar("F", bound=Planting)


def sampled(every: Sequence[F], count: int | None, seed: int) -> list[F]:
    """At most ``count`` faults of each class, drawn by the seed, in the order of the text; None means all."""
    groups: dict[StrEnum, list[F]] = defaultdict(list)
    for fault in every:
        groups[fault.kind].append(fault)
    rng = random.Random(seed)
    drawn = [g if count is None or len(g) <= count else rng.sample(g, count) for g in groups.values()]
    place = {id(fault): number for number, fault in enumerate(every)}
    return sorted((fault for group in drawn for fault in group), key=lambda fault: place[id(fault)])


def explained(row: Mapping[str, Any]) -> bool:
    """Whether a fault was caught, or a further run says why it could not be."""
    return bool(row["caught"] != Caught.UNEXPLAINED)


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """The counts by class and by kernel, the reasons for uncaught faults, and the findings that named the others."""
    valid = [row for row in rows if row["caught"] is not None]
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for row in valid:
        kinds[row["fault"]].update(row["kinds"] or (["(stopped)"] if row["caught"] == Caught.NAMED else []))
    parts = []
    for member in ("fault", "kernel"):
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in valid:
            counts[row[member]][row["caught"]] += 1
        lines = [_line(name, how) for name, how in sorted(counts.items())]
        total = sum(counts.values(), Counter[str]())
        columns = (member, "planted", "by name", "by numbers alone", "endless", "not caught", "of these")
        parts.append(table(columns, [*lines, _line("**all**", total)]))
    found = ((name, ", ".join(f"{kind} {n}" for kind, n in some.most_common())) for name, some in kinds.items())
    odd = [row for row in valid if not explained(row)]
    parts.append(table(("fault", "findings"), found))
    return "\n\n".join([*parts, *(f"- {row['kernel']}, line {row['line']}: {row['before']}" for row in odd)])


def _line(name: str, how: Counter[str]) -> Sequence[object]:
    missed = {kind: how[kind] for kind in (*EXPLAINED, Caught.UNEXPLAINED) if how[kind]}
    reasons = ", ".join(f"{count} {kind.value}" for kind, count in missed.items())
    return name, how.total(), how[Caught.NAMED], how[Caught.NUMBERS], how[Caught.HANGS], sum(missed.values()), reasons
