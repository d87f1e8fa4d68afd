"""Measure what the closed fills show; print the tables of results/judging.md.

python benchmarks/closed_fills.py [--per-cell 20] [--wrong 3] [--seed 0] [--line "-H 16 -s 64k ..."]
"""

from __future__ import annotations

import argparse

import numpy as np

from fmha_cli.domain.features import CLOSED_FILLS
from fmha_cli.domain.verdict import Verdict
from tests.support.generators.campaign import DTYPES
from tests.support.generators.closed_fills import Haystack, WrongRow, shown
from tests.support.models.faults import Fault

MILLION = "-H 16 -s 64k -d 32 --dtype {} --lse --mask window:1000,0"
"""1,048,576 rows."""


def cell(per_cell: int, seed: int, kind: str, fault: Fault) -> str:
    """``caught of runs``, and how many of the others changed no bit."""
    runs = [shown(seed + n, dtype, kind, fault) for dtype in DTYPES for n in range(per_cell)]
    known = [run for run in runs if run is not None]
    if not known:
        return "not used"
    silent = sum(not run.changed for run in known)
    return f"{sum(run.caught for run in known)} of {len(known)}" + (f", {silent} unchanged" if silent else "")


def faults(per_cell: int, seed: int) -> None:
    """Print which planted faults of the kernel model each fill catches."""
    print("| fault | " + " | ".join(CLOSED_FILLS) + " |\n|---|" + "---|" * len(CLOSED_FILLS))
    for fault in Fault:
        print(f"| {fault.value} | " + " | ".join(cell(per_cell, seed, kind, fault) for kind in CLOSED_FILLS) + " |")
    print()


def wrong_rows(count: int, seed: int, line: str) -> None:
    """Print which single wrong rows of a large problem each fill catches."""
    rng = np.random.Generator(np.random.PCG64([seed, 5]))
    print(
        "| one wrong row | " + " | ".join(f"{dtype.value} {kind}" for dtype in DTYPES for kind in CLOSED_FILLS) + " |"
    )
    print("|---|" + "---|" * len(CLOSED_FILLS) * len(DTYPES))
    caught: dict[WrongRow, list[str]] = {what: [] for what in WrongRow}
    for dtype in DTYPES:
        for kind in CLOSED_FILLS:
            hay = Haystack(line.format(dtype.value), kind, seed)
            assert hay.judged().verdict is Verdict.PASSED
            for what in WrongRow:
                places = zip(
                    rng.integers(1, hay.problem.heads, count), rng.integers(1, hay.problem.seqlen_q, count), strict=True
                )
                found = [hay.with_wrong_row(what, int(h), int(i)).verdict is Verdict.WRONG for h, i in places]
                caught[what].append(f"{sum(found)} of {count}")
    for what, cells in caught.items():
        print(f"| {what.value} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-cell", type=int, default=20, help="runs for each fault, fill and dtype")
    parser.add_argument("--wrong", type=int, default=3, help="wrong rows for each kind, fill and dtype")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--line", default=MILLION, help="the problem's flags, {} for the dtype")
    given = parser.parse_args()
    faults(given.per_cell, given.seed)
    wrong_rows(given.wrong, given.seed, given.line)


if __name__ == "__main__":
    main()
