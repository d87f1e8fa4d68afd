"""Measure how good the rules of ``fmha_cli.oracle.tolerance`` are, on modelled kernels without and with faults.

Units: row, element and rms are shares of their budget (above 1 fails); lse is relative to its allowance. A row sums up runs of one kind; it is good
unless an honest run fails. ``--write`` also stores in ``fmha_cli/oracle/budgets.json``, next to each constant, how much of it honest runs used; the
constants stay.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from tests.checks.check import Check, Row, code
from tests.checks.tables import table
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
from tests.support.generators.extreme_runs import (
    extreme_gradient_runs,
    extreme_run,
    plan_extreme,
    plan_extreme_faults,
)
from tests.support.models.faults import Fault

CHUNK = 500
SHARES = ("row", "element", "rms", "lse")
HONEST = ("honest", "others", "narrow", "backward", "extreme")
Pairs = Iterable[tuple[str, Run]]


@dataclass(frozen=True)
class CampaignPart:
    """Runs ``first`` to ``first + CHUNK`` of a sort."""

    sort: str
    first: int

    @property
    def name(self) -> str:
        return f"{self.sort} {self.first}"


def _separate() -> Iterator[tuple[Any, ...]]:
    """The faulty runs under separate budgets: a third of the plan, with every (fill, fault) cell. With MX types V is never in K."""
    for dtype, backend in (*OTHERS, *NARROW):
        for seed, planned, kind, fault in plan_faulty(40):
            if planned.value == "fp16" and not (dtype.is_mx and fault is Fault.V_COLUMNS):
                yield seed, dtype, kind, fault, backend


def _extreme(*planned: Any) -> Pairs:
    return [("o", extreme_run(*planned)), *extreme_gradient_runs(*planned)]


def _extreme_fault(*planned: Any) -> Pairs:
    return [("o", extreme_run(*planned)), *(pair for pair in extreme_gradient_runs(*planned) if pair[0] == "dv")]


SORTS: Mapping[str, tuple[Callable[[], Iterable[tuple[Any, ...]]], Callable[..., Pairs]]] = {
    "honest": (lambda: plan_honest(12000), lambda *planned: [("o", honest_run(*planned))]),
    "others": (lambda: plan_others(4000), lambda *planned: [("o", honest_run(*planned))]),
    "narrow": (lambda: plan_narrow(5000), lambda *planned: [("o", honest_run(*planned))]),
    "backward": (lambda: plan_honest(6000), gradient_runs),
    "extreme": (lambda: plan_extreme(900), _extreme),
    "faulty": (lambda: plan_faulty(40), lambda *planned: [("o", faulty_run(*planned))]),
    "faulty, separate budgets": (_separate, lambda *planned: [("o", faulty_run(*planned))]),
    "faulty, extreme": (lambda: plan_extreme_faults(40), _extreme_fault),
}
"""Sort -> what is planned, and the runs of one planned thing with their tensors."""


def parts() -> Iterator[CampaignPart]:
    """Every sort, in chunks."""
    for sort, (plan, _) in SORTS.items():
        count = sum(1 for _ in plan())
        yield from (CampaignPart(sort, first) for first in range(0, count, CHUNK))


def rows_of(part: CampaignPart) -> Iterator[Row]:
    """The runs of a chunk, summed up by tensor, data type, backend, fill and fault."""
    plan, runs_of = SORTS[part.sort]
    groups: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for planned in islice(plan(), part.first, part.first + CHUNK):
        for tensor, run in runs_of(*planned):
            groups[tensor, run.dtype, run.backend, run.fill, run.fault].append(run)
    for key, runs in groups.items():
        yield {
            "sort": part.sort,
            **dict(zip(("tensor", "dtype", "backend", "fill", "fault"), key, strict=True)),
            "runs": len(runs),
            **{name: max(getattr(run, name) for run in runs) for name in SHARES},
            "accepted": Counter(rule for run in runs for rule, yes in run.accepted.items() if yes),
            "judged": Counter(rule for run in runs for rule in run.accepted),
            "failed": [run.repro for run in runs if not run.accepted[RULES[-1]]] if part.sort in HONEST else [],
        }


def largest(rows: Iterable[Row], *by: str) -> str:
    """The largest share of each budget that runs used."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in by)].append(row)
    lines = (
        (*key, sum(r["runs"] for r in some), *(f"{max(r[name] for r in some):.2g}" for name in SHARES), sum(len(r["failed"]) for r in some))
        for key, some in sorted(groups.items())
    )  # fmt: skip
    return table((*by, "runs", *SHARES, "failed"), lines)


def accepted(rows: Iterable[Row], rule: str = RULES[-1]) -> str:
    """The share of runs that a rule accepts, of those that it can judge."""
    rows = list(rows)
    whole = sum(row["judged"].get(rule, 0) for row in rows)
    return f"{100 * sum(row['accepted'].get(rule, 0) for row in rows) / whole:.1f} %" if whole else "-"


def faulty(rows: Sequence[Row], honest: Sequence[Row]) -> Iterator[str]:
    """The share of faulty runs that each rule accepts, by fill, and by fault under all rules."""
    lines = []
    for rule in RULES:
        shares = [accepted((row for row in rows if row["fill"] == fill), rule) for fill in FILLS]
        gross = accepted((row for row in rows if row["fault"] in GROSS), rule)
        lost = 100 - float(accepted(honest, rule).partition(" ")[0].replace("-", "100"))
        lines.append((rule, *shares, accepted(rows, rule), gross, f"{lost:.1f} %"))
    yield table(("rule", *FILLS, "pooled", "gross", "honest failed"), lines)
    faults = []
    for fault in Fault:
        some = [row for row in rows if row["fault"] == fault.value]
        shares = [accepted(row for row in some if row["fill"] == fill) for fill in FILLS]
        faults.append((f"{fault.value}{' (gross)' if fault in GROSS else ''}", *shares, accepted(some)))
    yield table(("fault, all rules", *FILLS, "pooled"), faults)


def summary(rows: Sequence[Row]) -> str:
    """The use of each budget by honest runs, and the share of faulty runs that is accepted."""
    by_sort: dict[str, list[Row]] = {sort: [row for row in rows if row["sort"] == sort] for sort in SORTS}
    parts = [largest((row for row in rows if row["sort"] in HONEST), "sort", "tensor", "dtype", "backend")]
    parts += faulty(by_sort["faulty"], by_sort["honest"])
    for sort, by in (("faulty, separate budgets", ("dtype", "backend")), ("faulty, extreme", ("tensor", "fault"))):
        groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in by_sort[sort]:
            groups[tuple(row[name] for name in by)].append(row)
        lines = (
            (*key, accepted(some), accepted(row for row in some if row["fault"] in GROSS))
            for key, some in groups.items()
        )
        parts.append(table((*by, f"{sort}: accepted", "gross"), lines))
    return "\n\n".join(parts)


def keep(rows: Sequence[Row]) -> None:
    """Store the use of each budget by honest runs."""
    path = Path(str(files("fmha_cli.oracle").joinpath("budgets.json")))
    document = json.loads(path.read_text("utf-8"))
    for entry in document["budgets"]:
        key = (entry["tensor"], entry["dtype"], entry["backend"])
        members = [r for r in rows if r["sort"] in HONEST[:-1] and (r["tensor"], r["dtype"], r["backend"]) == key]
        used = {name: round(max(row[name] for row in members), 2) for name in SHARES[:-1]}
        used["lse"] = float(f"{max(row['lse'] for row in members) / entry['lse']:.1e}")
        runs = sum(row["runs"] for row in members)
        entry["measured"] = {"by": "tests/checks/tolerance.py", "runs": runs, "seed": 0, "used": used}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


CHECK = Check(
    cases=parts,
    name=lambda part: part.name,
    carry_out=rows_of,
    depends=lambda part: code("fmha_cli/oracle", "tests/support/models", "tests/support/generators"),
    good=lambda row: not row["failed"],
    by=("sort", "dtype"),
    summarise=summary,
    keep=keep,
)
