"""Which tests passed before and do not pass after, by the reports (JUnit XML) of two runs of all their stages.

    python tools/passed_tests.py --before OLD/*.xml --after NEW/*.xml

A test counts by its name. It passed in a run if it passed in one of the run's reports, because a later stage runs again what an earlier
one had to skip. Exit code 0 if none is lost, 1 if some are, 2 if a report cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", nargs="+", type=Path, required=True, metavar="XML")
    parser.add_argument("--after", nargs="+", type=Path, required=True, metavar="XML")
    given = parser.parse_args()
    try:
        before, after = passed(given.before), passed(given.after)
    except (ET.ParseError, OSError) as fault:
        print(f"a report cannot be read: {fault}", file=sys.stderr)
        return 2
    lost = sorted(before - after)
    print(f"{len(before)} tests passed before, {len(after)} after; {len(after - before)} are new, {len(lost)} are lost")
    print(
        *lost[:MOST],
        *([f"and {len(lost) - MOST} more"] if len(lost) > MOST else []),
        sep="\n",
        end="\n" if lost else "",
    )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
