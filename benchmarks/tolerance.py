"""Measure how good the rules of ``fmha_cli.oracle.tolerance`` are; print the tables of results/judging.md.

    python benchmarks/tolerance.py [--honest 12000] [--narrow 5000] [--per-cell 40] [--gradients 1500] [--extremes 900] [--seed 0]
        [--jobs 2] [--write]

Units: row, element and rms are shares of their budget (above 1 fails); lse is relative to its allowance.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from itertools import repeat
from pathlib import Path

from fmha_cli.domain.dtypes import DType
from tests.support.generators.campaign import (
    FILLS,
    GROSS,
    NARROW,
    OTHERS,
    RULES,
    Run,
    faulty_run,
    gradient_runs,
    honest_run,
    plan_faulty,
    plan_honest,
    plan_narrow,
    plan_others,
)
from tests.support.generators.extreme_runs import extreme_gradient_runs, extreme_run, plan_extreme, plan_extreme_faults
from tests.support.models.faults import ExtremeFault, Fault


def percent(part: int, whole: int) -> str:
    """A share as a readable percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def accepted(runs: list[Run], rule: str) -> str:
    """The share of runs that a rule accepts."""
    return percent(sum(r.accepted[rule] for r in runs), len(runs))


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def largest_table(title: str, runs: dict[str, list[Run]]) -> None:
    """The largest share of each budget that honest runs use."""
    rows = []
    for name, members in runs.items():
        worst = [f"{max(getattr(r, field) for r in members):.2g}" for field in ("row", "element", "rms", "lse")]
        failed = sum(not r.accepted["all rules"] for r in members)
        rows.append([name, str(len(members)), *worst, str(failed)])
    print(f"{title}\n")
    table(["", "runs", "row", "element", "rms", "LSE", "failed"], rows)


def accepted_tables(faulty: list[Run], honest: list[Run]) -> None:
    """The share of faulty runs that each rule accepts, by fill, and by fault under all rules."""
    by_rule = []
    for rule in RULES:
        seen = [r for r in faulty if rule in r.accepted]
        shares = [accepted([r for r in seen if r.fill == fill], rule) for fill in FILLS]
        gross = [r for r in seen if r.fault in GROSS]
        failed = percent(sum(not r.accepted[rule] for r in honest), len(honest))
        by_rule.append([rule, *shares, accepted(seen, rule), accepted(gross, rule), failed])
    print(f"{len(faulty)} faulty runs accepted, by rule and fill\n")
    table(["rule", *FILLS, "pooled", "gross", "honest failed"], by_rule)
    by_fault = []
    for fault in Fault:
        shares = []
        for kind in (*FILLS, None):
            members = [r for r in faulty if r.fault == fault.value and kind in (None, r.fill)]
            shares.append(accepted(members, "all rules"))
        by_fault.append([f"{fault.value}{' (gross)' if fault in GROSS else ''}", *shares])
    print("faulty runs accepted under all rules, by fault\n")
    table(["fault", *FILLS, "pooled"], by_fault)


def extreme_tables(pool: ProcessPoolExecutor, args: argparse.Namespace) -> list[Run]:
    """Print how honest and faulty runs under extreme scores, biases and sinks are judged; return the honest forward and backward runs."""
    planned = list(zip(*plan_extreme(args.extremes, args.seed), strict=True))
    honest = list(pool.map(extreme_run, *planned, chunksize=10))
    honest += [run for pairs in pool.map(extreme_gradient_runs, *planned, chunksize=10) for _, run in pairs]
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in honest:
        groups[f"{run.dtype} {run.fill}"].append(run)
    title = f"{args.extremes} honest forward and as many backward runs under extremes"
    largest_table(f"{title}, largest share of each budget", dict(sorted(groups.items())))
    cells = list(zip(*plan_extreme_faults(args.per_cell, args.seed), strict=True))
    lost = list(pool.map(extreme_run, *cells, chunksize=10))
    gradients = [
        run for pairs in pool.map(extreme_gradient_runs, *cells, chunksize=10) for n, run in pairs if n == "dv"
    ]
    rows = []
    for fault in ExtremeFault:
        o, dv = ([r for r in runs if r.fault == fault.value] for runs in (lost, gradients))
        rows.append([fault.value, str(len(o)), accepted(o, RULES[-1]), accepted(dv, RULES[-1])])
    print(f"{len(lost)} faulty forward and {len(gradients)} faulty backward runs under extremes, accepted\n")
    table(["fault", "runs", "O", "dV"], rows)
    return honest


def write_measured(honest: list[Run], backward: list[tuple[str, Run]], seed: int) -> None:
    """Store in ``budgets.json``, next to each constant, how much of it honest runs used; the constants stay."""
    runs: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for name, run in [("o", r) for r in honest] + backward:
        runs[name, run.dtype, run.backend].append(run)
    path = Path(str(files("fmha_cli.oracle").joinpath("budgets.json")))
    document = json.loads(path.read_text(encoding="utf-8"))
    for entry in document["budgets"]:
        members = runs[entry["tensor"], entry["dtype"], entry["backend"]]
        used = {field: round(max(getattr(r, field) for r in members), 2) for field in ("row", "element", "rms")}
        used["lse"] = float(f"{max(r.lse for r in members) / entry['lse']:.1e}")
        entry["measured"] = {"by": "benchmarks/tolerance.py", "runs": len(members), "seed": seed, "used": used}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _cells(args: argparse.Namespace, dtype: DType) -> list[tuple[int, DType, str, Fault]]:
    """The faulty runs of one data type: a third of the plan, with every (fill, fault) cell. With MX types V is never in K."""
    cells = [cell for cell in plan_faulty(args.per_cell, args.seed) if cell[1] is DType.FP16]
    return [cell for cell in cells if not (dtype.is_mx and cell[-1] is Fault.V_COLUMNS)]


def main() -> None:
    """Run the campaign and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--honest", type=int, default=12000)
    parser.add_argument("--narrow", type=int, default=5000, help="honest runs with fp8 and MX inputs")
    parser.add_argument("--per-cell", type=int, default=40)
    parser.add_argument("--gradients", type=int, default=1500)
    parser.add_argument("--extremes", type=int, default=900, help="honest runs under extreme scores, biases and sinks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="store the measurement in fmha_cli/oracle/budgets.json")
    parser.add_argument("--show", type=int, default=0, help="print this many accepted faulty and failed honest runs")
    args = parser.parse_args()
    with ProcessPoolExecutor(args.jobs) as pool:
        honest = list(pool.map(honest_run, *zip(*plan_honest(args.honest, args.seed), strict=True), chunksize=50))
        others = list(pool.map(honest_run, *zip(*plan_others(args.honest // 3, args.seed), strict=True), chunksize=50))
        others += pool.map(honest_run, *zip(*plan_narrow(args.narrow, args.seed), strict=True), chunksize=50)
        separate = (*OTHERS, *NARROW)
        cells = [(*cell[:1], dtype, *cell[2:], backend) for dtype, backend in separate for cell in _cells(args, dtype)]
        missed = list(pool.map(faulty_run, *zip(*cells, strict=True), chunksize=50))
        faulty = list(pool.map(faulty_run, *zip(*plan_faulty(args.per_cell, args.seed), strict=True), chunksize=50))
        planned = list(plan_honest(args.gradients, args.seed))
        backward = list(pool.map(gradient_runs, *zip(*planned, strict=True), chunksize=50)) if planned else []
        extremes = extreme_tables(pool, args)
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in honest:
        groups[f"{run.dtype} {run.fill}"].append(run)
    largest_table(f"{len(honest)} honest forward runs, largest share of each budget", dict(sorted(groups.items())))
    groups.clear()
    for name, run in (pair for pairs in backward for pair in pairs):
        groups[f"{name} {run.dtype}"].append(run)
    largest_table(f"{len(backward)} honest backward runs, largest share of each budget", dict(sorted(groups.items())))
    accepted_tables(faulty, honest)
    groups.clear()
    for run in others:
        groups[f"{run.dtype} {run.backend} {run.fill}"].append(run)
    largest_table(f"{len(others)} honest forward runs with separate budgets", dict(sorted(groups.items())))
    print(f"{len(missed)} faulty runs under the separate budgets, accepted\n")
    rows = []
    for dtype, backend in separate:
        members = [r for r in missed if (r.dtype, r.backend) == (dtype.value, backend)]
        gross = [r for r in members if r.fault in GROSS]
        rows.append([f"{dtype.value} {backend}", accepted(members, RULES[-1]), accepted(gross, RULES[-1])])
    table(["", "all faults", "gross"], rows)
    wrong = [r for r in faulty if r.accepted["all rules"]] + [
        r for r in (*honest, *extremes) if not r.accepted["all rules"]
    ]
    if args.write:
        write_measured([*honest, *others], [pair for pairs in backward for pair in pairs], args.seed)
    for run, _ in zip(wrong, repeat(None, args.show), strict=False):
        print(run)


if __name__ == "__main__":
    main()
