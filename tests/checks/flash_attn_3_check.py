"""Execute FlashAttention-3's kernels on an emulated H100, over features, both arithmetics and three seeds, and judge their results.

``flash_attn_3_problems.py`` has the problems. Each is chosen, compiled, executed and judged as with ``fmha run``. A row is good if it PASSED, or
if its numbers are right and each kind of finding is reported in ``arch_specs/_known_bad.json`` about a kernel of the plan. A kernel counts if all
its rows are good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from fmha_cli.api import FmhaError, Problem, build_registry, run
from fmha_cli.backends.gpu.known_bad import known_bad
from fmha_cli.discovery.emulated_devices import emulated_device
from fmha_cli.domain.features import Arithmetic
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from tests.checks.check import ROOT, Check, Row, builds
from tests.checks.command import SCHEMA
from tests.checks.flash_attn_3_problems import PROBLEMS, Fa3Problem
from tests.checks.tables import table
from tools.result_data import write_json

BACKEND, DEVICE, SEEDS = "flash_attn_3", "emu:sm_90a", (0, 1, 2)
KNOWN = "HAZARD, known"
GOOD = ("PASSED", KNOWN)
registry = cache(build_registry)


@cache
def kernels() -> Mapping[str, KernelSpec]:
    """The backend's kernels by digest."""
    return {kernel.digest: kernel for kernel in registry().backend(BACKEND).kernels(registry().arch("sm_90a"))}


def rows_of(problem: Fa3Problem) -> Iterator[dict[str, Any]]:
    """A row for each arithmetic and seed. A failure of the first is not repeated."""
    for arithmetic, seed in product(Arithmetic, SEEDS):
        row = row_of(problem, arithmetic, seed)
        yield row
        if row["verdict"] not in GOOD:
            return


def row_of(problem: Fa3Problem, arithmetic: Arithmetic, seed: int) -> dict[str, Any]:
    """Execute a problem once and judge it."""
    row = {"feature": problem.feature, "flags": problem.flags, "arithmetic": arithmetic.value, "seed": seed}
    return row | judged(problem.flags, emu_arith=arithmetic, emu_seed=seed)[0]


def judged(flags: str, **options: Any) -> list[dict[str, Any]]:
    """What comes of each row of a problem: verdict, kernels, findings, errors, notes.

    Args:
        options: of ``fmha_cli.api.run``.
    """
    try:
        made = run(Problem.from_cli(flags), registry=registry(), backend=BACKEND, device=DEVICE, **options)
    except FmhaError as fault:
        return [{"verdict": "REFUSED", "kernels": {}, "findings": {}, "checks": {}, "notes": [str(fault)]}]
    return list(map(_judged, made))


def _judged(made: Record) -> dict[str, Any]:
    record = made.to_dict()
    right = all(one.verdict is not Verdict.WRONG for one in made.comparisons)  # HAZARD comes before WRONG
    findings = record["findings"] or []
    unknown = [one for one in findings if not reported([stage["digest"] for stage in record["stages"]], one["kind"])]
    known = record["verdict"] == "HAZARD" and right and findings and not unknown
    return {
        "verdict": KNOWN if known else record["verdict"],
        "kernels": {stage["digest"]: stage["family"] for stage in record["stages"]},
        "findings": {kind: sum(one["kind"] == kind for one in findings) for kind in {f["kind"] for f in findings}},
        "checks": {name: check["row_l2"] for name, check in (record["checks"] or {}).items() if check},
        "notes": record["notes"],
    }


def reported(digests: Sequence[str], kind: str) -> bool:
    """Whether a finding is in the table of known hazards about a kernel of the plan. Its own name does not tell them apart."""
    reports = [report for report in known_bad(BACKEND) if report.finding == kind]
    return any(report.meets(kernels()[digest]) for report in reports for digest in digests)


def counted(rows: Sequence[Row]) -> dict[str, dict[str, set[str]]]:
    """The kernels whose rows are all good, by family: those that PASSED in all, and those with known hazards."""
    verdicts: dict[tuple[str, str], set[str]] = defaultdict(set)
    ways: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    for row in rows:
        for digest, family in row["kernels"].items():
            verdicts[family, digest].add(row["verdict"])
            ways[family, digest].add((row["arithmetic"], row["seed"]))
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for (family, digest), seen in verdicts.items():
        if seen <= set(GOOD) and len(ways[family, digest]) == len(Arithmetic) * len(SEEDS):
            found[family]["PASSED" if seen == {"PASSED"} else KNOWN].add(digest)
    return found


def summary(rows: Sequence[Row]) -> str:
    """The kernels that count, and the problems that did not run."""
    found = counted(rows)
    lines = [[family, len(some["PASSED"]), len(some[KNOWN])] for family, some in sorted(found.items())]
    lines.append(["**all**", *(sum(len(some[sort]) for some in found.values()) for sort in GOOD)])
    ran = {row["flags"] for row in rows}
    left = sum(problem.flags not in ran for problem in PROBLEMS)
    return f"{table(('family', *GOOD), lines)}\n\n{left} of {len(PROBLEMS)} problems NOT_RUN"


def keep(rows: Sequence[Row]) -> None:
    """Write the rows, and one for each problem that did not run."""
    ran = {row["flags"] for row in rows}
    empty = {"verdict": "NOT_RUN", "kernels": {}, "findings": {}}
    left = [{"feature": p.feature, "flags": p.flags, **empty} for p in PROBLEMS if p.flags not in ran]
    document = {"schema": SCHEMA, "check": "flash_attn_3_check", "rows": [*rows, *left]}
    write_json(ROOT / "results" / "data" / "flash_attn_3_check.json.xz", document)


CHECK = Check(
    cases=lambda: PROBLEMS,
    name=lambda problem: problem.name,
    carry_out=rows_of,
    good=lambda row: row["verdict"] in GOOD,
    depends=lambda problem: builds(registry(), BACKEND, problem.flags, emulated_device(registry(), DEVICE)[1]),
    by=("feature", "verdict"),
    summarise=summary,
    keep=keep,
)
