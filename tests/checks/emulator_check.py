"""Execute CK-Tile's kernels on emulated AMD devices and judge their results.

``ck_problems.py`` has the problems. Each goes through the same walk as ``fmha run``: the kernel is chosen, built and launched on the
device ``emu:ARCH``; its result is compared with the reference, and its findings are examined.

A kernel may have known findings (``arch_specs/_known_bad.json``, ``finding``). A race makes its numbers depend on the order of its waves.
Such a row is therefore executed again with waves in step, and is *known* if its numbers are then right. (A missing wait changes numbers on
a GPU, but not on the emulator, where loads deliver at once.) Known rows are not counted among the correct kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fmha_cli.api import Registry, build_registry, run
from fmha_cli.backends.ck_tile.kernel_rules import known_bad
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.problem import Problem
from fmha_cli.plugin import DeviceFacts
from tests.checks.check import Check, Row, builds
from tests.checks.ck_problems import CkProblem, all_problems

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1201")
BACKEND = "ck_tile"
KNOWN = "known"
STEP = 4
"""Instructions per turn of a wave that keep the waves in step."""


@dataclass(frozen=True)
class CkPoint:
    """A problem on an architecture. ``seed``: of the fills."""

    arch: str
    problem: CkProblem
    seed: int = 0


registry = cache(build_registry)


def points(archs: Iterable[str] = ARCHS, seed: int = 0) -> Iterator[CkPoint]:
    """Every problem on every architecture."""
    return (CkPoint(arch, problem, seed) for arch in archs for problem in all_problems())


def exists(point: CkPoint) -> bool:
    """Whether the backend has a kernel for a point. The check takes tens of milliseconds."""
    wanted = Wanted(backend=BACKEND, arch=point.arch)
    return select(Problem.from_cli(point.problem.flags), registry(), {}, wanted).best is not None


def rows_of(point: CkPoint) -> Iterator[Row]:
    """Execute and judge one point; no row if no kernel exists for it."""
    if exists(point):
        yield row_of(point, registry())


def row_of(point: CkPoint, registry: Registry) -> dict[str, Any]:
    """The row of a point that has a kernel."""
    problem = Problem.from_cli(point.problem.flags)
    options: dict[str, Any] = {"backend": BACKEND, "device": f"emu:{point.arch}", "fill_seed": point.seed}
    record = run(problem, registry=registry, **options)[0].to_dict()
    row = {"arch": point.arch, "case": point.problem.name, "flags": point.problem.flags, **_figures(record)}
    if tuple(s["family"] for s in record["stages"]) != point.problem.families:
        row["notes"] = [*row["notes"], f"expected {', '.join(point.problem.families)}"]
        row["verdict"] = "OTHER FAMILIES"
    return row | _known(problem, point.arch, registry, options, row)


def _known(
    problem: Problem, arch: str, registry: Registry, options: Mapping[str, Any], row: Mapping[str, Any]
) -> dict[str, Any]:
    """For a row whose findings are all known for its kernel: the reports' links and the verdict with waves in step."""
    kinds = {finding["kind"] for finding in row["findings"]}
    best = select(problem, registry, {}, Wanted(backend=BACKEND, arch=arch)).best
    if not kinds or best is None:
        return {}
    reports = {r.finding: r.link for r in known_bad() if r.finding and r.meets(best.kernel)}
    if not kinds <= reports.keys():
        return {}
    again = run(problem, registry=registry, **options, emu_turn=STEP, emu_checks=False)[0].to_dict()
    right = again["verdict"] == "PASSED"
    return {
        "known": sorted(reports[kind] for kind in kinds),
        "in_step": {"verdict": again["verdict"], "checks": _figures(again)["checks"]},
        **({"verdict": f"{row['verdict']}, {KNOWN}"} if right else {}),
    }


def sound(row: Row) -> bool:
    """Whether the row needs no further explanation."""
    verdict: str = row["verdict"]
    return verdict == "PASSED" or verdict.endswith(f", {KNOWN}")


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "verdict": record["verdict"],
        "repro": record["repro"],
        "device": record["device"],
        "kernels": {stage["digest"]: stage["family"] for stage in record["stages"]},
        "checks": {name: check for name, check in (record["checks"] or {}).items() if check},
        "findings": record.get("findings") or [],
        "instructions": sum(stage["instructions"] for stage in record.get("executed") or ()),
        "notes": record["notes"],
    }


def right(rows: Sequence[Row]) -> str:
    """The distinct kernels that were executed and are right."""
    kernels = {digest for row in rows if row["verdict"] == "PASSED" for digest in row["kernels"]}
    return f"{len(kernels)} distinct kernels were executed and are right."


CHECK = Check(
    cases=points,
    name=lambda point: f"{point.arch} {point.problem.name}",
    carry_out=rows_of,
    depends=lambda point: builds(registry(), BACKEND, point.problem.flags, DeviceFacts.of_arch(point.arch)),
    good=sound,
    by=("verdict", "arch"),
    summarise=right,
)
