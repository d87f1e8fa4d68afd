"""Run the cases of a check that its journal does not hold, and keep each one's rows there as soon as they are known."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fmha_cli.api import FmhaError
from fmha_cli.domain.encode import canonical_json
from tests.checks.check import Check, Row, revision

REFUSALS = (FmhaError, ValueError, LookupError, OSError, subprocess.SubprocessError)
"""What a case may raise, or finding out what it depends on: it then has no rows, is reported, and is tried again by the
next run.
"""
MOST = 400
"""Characters of a fault that are kept."""
PER_PROCESS = 40
"""Cases after which a process is replaced, because some keep memory. ``max_tasks_per_child`` of a pool is no help: up to
Python 3.15, the pool waits for ever once all its processes have ended (https://github.com/python/cpython/issues/115634).
"""
KILLED = "its process ended without an answer, also when no other case ran: killed by a signal, or memory ran out"


@dataclass(frozen=True)
class Line:
    """A line of a journal: a case that ran.

    Attributes:
        digest: of the case and of what its rows depend on.
        revision: of the checkout that ran it.
    """

    name: str
    digest: str
    revision: str
    seconds: float
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Wanted:
    """The cases to run.

    Attributes:
        select: a case is meant if its name holds every word of one of these texts; of all texts if there are none.
        sample: so many of them, drawn by ``seed``; None for all.
        limit: run at most so many.
        again: also run the cases that are finished.
    """

    select: tuple[str, ...] = ()
    sample: int | None = None
    seed: int = 0
    limit: int | None = None
    jobs: int = 1
    again: bool = False

    def of(self, names: Sequence[str]) -> list[str]:
        """The names that are meant, in their order."""
        texts = self.select or ("",)
        meant = [name for name in names if any(all(word in name for word in text.split()) for text in texts)]
        if self.sample is not None and self.sample < len(meant):
            drawn = set(random.Random(self.seed).sample(meant, self.sample))
            meant = [name for name in meant if name in drawn]
        return meant


@dataclass
class Outcome:
    """The outcome of a run.

    Attributes:
        lines: of the journal, in the order of the check's cases; including lines that this run did not ask for.
        stood: how many cases did not run, because their rows are finished.
        left: names that ``limit`` left out.
        refused: name -> why a case has no rows.
        bad: names of asked cases with a row that is not good.
    """

    lines: list[Line]
    carried_out: int = 0
    stood: int = 0
    left: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [row for line in self.lines for row in line.rows]

    @property
    def good(self) -> bool:
        """Whether something was asked for, and every row of it is as it should be."""
        return bool(self.carried_out or self.stood) and not self.bad and not self.refused


def read(journal: Path) -> dict[str, Line]:
    """The last line of each case. A line that was cut short by the end of its process is left out."""
    found: dict[str, Line] = {}
    for text in journal.read_text("utf-8").splitlines() if journal.exists() else ():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        found[line["name"]] = Line(**{**line, "rows": tuple(line["rows"])})
    return found


def add(journal: Path, line: Line) -> None:
    """Write a line, whole even if the last one was cut short."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a+", encoding="utf-8") as file:
        file.seek(0)
        start = "" if file.read().endswith("\n") or not file.tell() else "\n"
        file.write(f"{start}{json.dumps(line.__dict__)}\n")


def digest_of(check: Check[Any], case: Any) -> str:
    """The digest of a case and of what its rows depend on."""
    text = canonical_json([repr(case), check.depends(case)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def run(check: Check[Any], wanted: Wanted, journal: Path, said: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run the requested cases that are not finished.

    Raises:
        ValueError: two cases have one name.
    """
    cases = named(check)
    known, meant = read(journal), wanted.of(list(cases))
    outcome = Outcome([])
    todo: list[tuple[str, str]] = []
    for name in meant:
        line = known.get(name)
        try:
            digest = digest_of(check, cases[name])
        except REFUSALS as fault:
            outcome.refused[name] = f"{type(fault).__name__}: {fault}"[:MOST]
            continue
        if line is not None and not wanted.again and _stands(check, line, digest):
            outcome.stood += 1
        elif wanted.limit is not None and len(todo) >= wanted.limit:
            outcome.left.append(name)
        else:
            todo.append((name, digest))
    for (name, digest), (rows, why, seconds) in zip(todo, _carried_out(check, cases, todo, wanted.jobs), strict=True):
        if why:
            outcome.refused[name] = why
        else:
            known[name] = Line(name, digest, revision(), seconds, tuple(rows))
            add(journal, known[name])
        outcome.carried_out += 1
        good = sum(map(check.good, rows))
        said(f"{name}: {why or f'{good} of {len(rows)} rows good'}, {seconds:.1f} s")
    outcome.lines = [known[name] for name in cases if name in known]
    asked = set(meant) - set(outcome.left) - set(outcome.refused)
    outcome.bad = [line.name for line in outcome.lines if line.name in asked and not all(map(check.good, line.rows))]
    return outcome


def named(check: Check[Any]) -> dict[str, Any]:
    """The cases by name.

    Raises:
        ValueError: two cases have one name.
    """
    cases = list(check.cases())
    found = {check.name(case): case for case in cases}
    if len(found) != len(cases):
        raise ValueError(f"{len(cases) - len(found)} cases have the name of another")
    return found


def _stands(check: Check[Any], line: Line, digest: str) -> bool:
    stands = check.stands or check.good
    return line.digest == digest and all(map(stands, line.rows))


Result = tuple[list[Row], str, float]


def _carried_out(
    check: Check[Any], cases: Mapping[str, Any], todo: Sequence[tuple[str, str]], jobs: int
) -> Iterator[Result]:
    """The rows of each case, or why there are none, and the seconds; in ``jobs`` processes if there are several."""
    work = [cases[name] for name, _ in todo]
    if jobs == 1:
        yield from (_one(check.carry_out, case) for case in work)
        return
    while work:
        part = work[: jobs * PER_PROCESS]
        answered = 0
        for result in _in_a_pool(check, part, jobs):
            answered += 1
            yield result
        if answered < len(part):
            yield next(_in_a_pool(check, part[answered : answered + 1], 1), ([], KILLED, 0.0))
            answered += 1
        work = work[answered:]


def _in_a_pool(check: Check[Any], work: Sequence[Any], jobs: int) -> Iterator[Result]:
    """The results of the cases in order, up to the first case that has none because a process of the pool was killed."""
    with ProcessPoolExecutor(jobs, get_context("spawn"), check.limit) as pool:
        try:
            yield from pool.map(partial(_one, check.carry_out), work)
        except BrokenProcessPool:
            return


def _one(carry_out: Callable[[Any], Any], case: Any) -> Result:
    start = time.monotonic()
    try:
        found = carry_out(case)
        rows = [found] if isinstance(found, Mapping) else list(found)
        return rows, "", round(time.monotonic() - start, 2)
    except REFUSALS as fault:
        print(f"{case}: {fault}", file=sys.stderr)
        return [], f"{type(fault).__name__}: {fault}"[:MOST], round(time.monotonic() - start, 2)
