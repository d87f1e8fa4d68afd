"""Measure how good the rules of ``fmha_cli.oracle.tolerance`` are; prints the tables of docs/numerics.md.

    python benchmarks/tolerance.py [--honest 12000] [--per-cell 40] [--gradients 1500] [--seed 0] [--jobs 2]

Units: row, element and rms as a share of their budget (above 1 fails), lse relative to its allowance.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from fmha_cli.faults import Fault
from fmha_cli.oracle.campaign import GROSS, Run, faulty_run, gradient_runs, honest_run, plan_faulty, plan_honest
from fmha_cli.oracle.fills import FILLS


def percent(part: int, whole: int) -> str:
    """A share as people read it."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def largest_table(title: str, runs: dict[str, list[Run]]) -> None:
    """Largest share of each budget that honest runs use."""
    rows = []
    for name, members in runs.items():
        worst = [f"{max(getattr(r, field) for r in members):.2g}" for field in ("row", "element", "rms", "lse")]
        failed = sum(not all(r.accepted.values()) for r in members if "all rules" not in r.accepted)
        failed += sum(not r.accepted["all rules"] for r in members if "all rules" in r.accepted)
        rows.append([name, str(len(members)), *worst, str(failed)])
    print(f"{title}\n")
    table(["", "runs", "row", "element", "rms", "LSE", "failed"], rows)


def accepted_tables(faulty: list[Run], honest: list[Run]) -> None:
    """Faulty runs that each rule accepts, by fill; and by fault under all rules."""
    by_rule = []
    for rule in faulty[0].accepted:
        shares = []
        for fill in FILLS:
            members = [r for r in faulty if r.fill == fill]
            shares.append(percent(sum(r.accepted[rule] for r in members), len(members)))
        gross = [r for r in faulty if r.fault in GROSS]
        pooled = percent(sum(r.accepted[rule] for r in faulty), len(faulty))
        failed = percent(sum(not r.accepted[rule] for r in honest), len(honest))
        by_rule.append([rule, *shares, pooled, percent(sum(r.accepted[rule] for r in gross), len(gross)), failed])
    print(f"{len(faulty)} faulty runs accepted, by rule and fill\n")
    table(["rule", *FILLS, "pooled", "gross", "honest failed"], by_rule)
    by_fault = []
    for fault in Fault:
        shares = []
        for kind in (*FILLS, None):
            members = [r for r in faulty if r.fault == fault.value and kind in (None, r.fill)]
            shares.append(percent(sum(r.accepted["all rules"] for r in members), len(members)))
        by_fault.append([f"{fault.value}{' (gross)' if fault in GROSS else ''}", *shares])
    print("faulty runs accepted under all rules, by fault\n")
    table(["fault", *FILLS, "pooled"], by_fault)


def main() -> None:
    """Run the campaign and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--honest", type=int, default=12000)
    parser.add_argument("--per-cell", type=int, default=40)
    parser.add_argument("--gradients", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=0, help="print this many accepted faulty and failed honest runs")
    args = parser.parse_args()
    with ProcessPoolExecutor(args.jobs) as pool:
        honest = list(pool.map(honest_run, *zip(*plan_honest(args.honest, args.seed), strict=True), chunksize=50))
        faulty = list(pool.map(faulty_run, *zip(*plan_faulty(args.per_cell, args.seed), strict=True), chunksize=50))
        planned = list(plan_honest(args.gradients, args.seed))
        backward = list(pool.map(gradient_runs, *zip(*planned, strict=True), chunksize=50)) if planned else []
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in honest:
        groups[f"{run.dtype} {run.fill}"].append(run)
    largest_table(f"{len(honest)} honest forward runs, largest share of each budget", dict(sorted(groups.items())))
    groups.clear()
    for name, run in (pair for pairs in backward for pair in pairs):
        groups[f"{name} {run.dtype}"].append(run)
    largest_table(f"{len(backward)} honest backward runs, largest share of each budget", dict(sorted(groups.items())))
    accepted_tables(faulty, honest)
    wrong = [r for r in faulty if r.accepted["all rules"]] + [r for r in honest if not r.accepted["all rules"]]
    for run, _ in zip(wrong, repeat(None, args.show), strict=False):
        print(run)


if __name__ == "__main__":
    main()
