"""Which tests passed before and do not pass after, by the reports (JUnit XML) of two runs of all their stages.

    python tools/passed_tests.py --before OLD/*.xml --after NEW/*.xml [--moved TABLE.tsv...]

A row of a table says where a file or a test went: its old id, its new id, and why, with tabs between. ``*`` in the old id stands for
any text, the same in the new one. Many old ids may have one new id (cases that became one test); ``-`` means none, which needs a reason.
Rows apply in order, so a test that moved twice has two.

A test counts by its name. It passed in a run if it passed in one of the run's reports, because a later stage runs again what an earlier
one had to skip. Exit code 0 if none is lost, 1 if some are, 2 if a report cannot be read.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

MOST = 50
"""Names that are printed."""


def passed(reports: Iterable[Path]) -> set[str]:
    """The tests that passed in at least one of the reports."""
    return {name for report in reports for name, outcome in outcomes(report) if outcome is None}


def skipped(report: Path) -> set[str]:
    """The tests that were skipped; a module that was skipped as a whole counts by its own name."""
    return {name for name, outcome in outcomes(report) if outcome == "skipped"}


def outcomes(report: Path) -> Iterator[tuple[str, str | None]]:
    """Each test's name (``tests.cli.test_app::test_it[x]``), and what it came to: None if it passed.

    Raises:
        ET.ParseError, OSError: it cannot be read.
    """
    for case in ET.parse(report).iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        yield name, next((part.tag for part in case if part.tag in ("skipped", "failure", "error")), None)


def name_of(nodeid: str) -> str:
    """The name in a report of a test with an id of pytest (``tests/cli/test_app.py::test_it[x]``)."""
    file, _, rest = nodeid.partition("::")
    return "::".join(filter(None, (file.removesuffix(".py").replace("/", "."), rest)))


@dataclass(frozen=True)
class Move:
    """A row of a table: where the tests of a name went, and why; ``new`` is None if they are gone."""

    old: re.Pattern[str]
    new: str | None
    why: str

    def apply(self, name: str) -> str | None:
        """Where a test went; a test of another name stays."""
        found = self.old.fullmatch(name)
        if found is None or self.new is None:
            return name if found is None else None
        parts = iter([*found.groups()[:-1]])
        return re.sub(r"\*", lambda _: next(parts, ""), self.new) + (found.groups()[-1] or "")


def moves(table: Path) -> Iterator[Move]:
    """The rows of a table.

    Raises:
        ValueError: a row without three cells, or without a reason. OSError: it cannot be read.
    """
    for number, line in enumerate(table.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        old, new, why = (*(cell.strip() for cell in line.split("\t")), "", "", "")[:3]
        if not (old and new and why):
            raise ValueError(f"{table}:{number}: not an old id, a new id and a reason with tabs between")
        own = "(.*)".join(map(re.escape, name_of(old).split("*")))
        # A file takes its tests along, and a test its cases.
        rest = r"(::.*|\..*)?" if "::" not in old else r"(\[.*)?" if "[" not in old else "()"
        yield Move(re.compile(own + rest, re.DOTALL), None if new == "-" else name_of(new), why)


def moved(name: str, table: Iterable[Move]) -> str | None:
    """The new name of a test; None if it is gone."""
    now: str | None = name
    for move in table:
        now = None if now is None else move.apply(now)
    return now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", nargs="+", type=Path, required=True, metavar="XML")
    parser.add_argument("--after", nargs="+", type=Path, required=True, metavar="XML")
    parser.add_argument("--moved", nargs="+", type=Path, default=[], metavar="TABLE")
    given = parser.parse_args()
    try:
        before, after = passed(given.before), passed(given.after)
        table = [move for file in given.moved for move in moves(file)]
    except (ET.ParseError, OSError, ValueError) as fault:
        print(f"a report or a table cannot be read: {fault}", file=sys.stderr)
        return 2
    now = {name: moved(name, table) for name in before}
    gone = sum(place is None for place in now.values())
    kept = {place for place in now.values() if place is not None}
    lost = sorted(name for name, place in now.items() if place is not None and place not in after)
    print(
        f"{len(before)} tests passed before, {len(after)} after; {len(after - kept)} are new, {len(lost)} are lost"
        + (f", {gone} are gone for a reason" if gone else "")
    )
    print(
        *lost[:MOST],
        *([f"and {len(lost) - MOST} more"] if len(lost) > MOST else []),
        sep="\n",
        end="\n" if lost else "",
    )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
