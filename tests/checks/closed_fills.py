"""Measure the findings of the closed fills: which planted faults of the kernel model, and which single wrong rows of a
large problem.

A row of a fault counts runs in which the fault is caught, and those in which it changed no bit. A wrong row among 1,048,576 must always be found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fmha_cli.domain.features import CLOSED_FILLS
from fmha_cli.domain.verdict import Verdict
from tests.checks.check import Check, Row, code
from tests.checks.tables import table
from tests.support.generators.campaign import DTYPES
from tests.support.generators.closed_fills import Haystack, WrongRow, shown
from tests.support.models.faults import Fault

MILLION = "-H 16 -s 64k -d 32 --dtype {} --lse --mask window:1000,0"
"""1,048,576 rows."""
PER_CELL, WRONG = 20, 3
"""Runs for each fault, fill and data type; wrong rows of each kind."""


@dataclass(frozen=True)
class ClosedFillCase:
    """Faults of one class, or wrong rows of a data type if there is no fault, under a fill."""

    fill: str
    fault: Fault | None = None
    dtype: str = ""

    @property
    def name(self) -> str:
        return f"{self.fill}: {self.fault.value if self.fault else f'wrong rows {self.dtype}'}"


def cases() -> Iterator[ClosedFillCase]:
    """Every fault under every fill, then wrong rows."""
    yield from (ClosedFillCase(fill, fault) for fault in Fault for fill in CLOSED_FILLS)
    yield from (ClosedFillCase(fill, None, dtype.value) for dtype in DTYPES for fill in CLOSED_FILLS)


def rows_of(case: ClosedFillCase) -> Iterator[Row]:
    """Run a case."""
    if case.fault is None:
        yield from wrong_rows(case)
        return
    runs = [shown(n, dtype, case.fill, case.fault) for dtype in DTYPES for n in range(PER_CELL)]
    known = [run for run in runs if run is not None]
    caught, unchanged = sum(run.caught for run in known), sum(not run.changed for run in known)
    row = {"what": case.fault.value, "fill": case.fill, "dtype": None, "runs": len(known), "caught": caught}
    yield {**row, "unchanged": unchanged, "must": False}


def wrong_rows(case: ClosedFillCase) -> Iterator[Row]:
    """Single wrong rows of a problem with a million rows."""
    rng = np.random.Generator(np.random.PCG64([0, 5]))
    hay = Haystack(MILLION.format(case.dtype), case.fill, 0)
    if hay.judged().verdict is not Verdict.PASSED:
        raise ValueError(f"{case.name}: the problem is not right without a wrong row")
    for what in WrongRow:
        heads, rows = rng.integers(1, hay.problem.heads, WRONG), rng.integers(1, hay.problem.seqlen_q, WRONG)
        found = [hay.with_wrong_row(what, int(h), int(i)).verdict for h, i in zip(heads, rows, strict=True)]
        row = {"what": what.value, "fill": case.fill, "dtype": case.dtype, "runs": WRONG}
        yield {**row, "caught": found.count(Verdict.WRONG), "unchanged": 0, "must": True}


def summary(rows: Sequence[Row]) -> str:
    """The faults that each fill catches."""
    lines = []
    for what in dict.fromkeys(row["what"] for row in rows):
        cells = []
        for fill in CLOSED_FILLS:
            some = [row for row in rows if (row["what"], row["fill"]) == (what, fill)]
            runs, caught, same = (sum(row[name] for row in some) for name in ("runs", "caught", "unchanged"))
            cells.append(f"{caught} of {runs}{f', {same} unchanged' if same else ''}" if runs else "not used")
        lines.append((what, *cells))
    return table(("fault, or one wrong row", *CLOSED_FILLS), lines)


CHECK = Check(
    cases=cases,
    name=lambda case: case.name,
    carry_out=rows_of,
    depends=lambda case: code("fmha_cli/oracle", "tests/support/models", "tests/support/generators"),
    good=lambda row: not row["must"] or row["caught"] == row["runs"],
    by=("what", "fill"),
    summarise=summary,
)
