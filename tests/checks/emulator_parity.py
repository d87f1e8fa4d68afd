"""Run upstream's own example programs and this tool on one emulated AMD device: ``fmha parity`` without hardware.

All cases of ``basic`` run, then cases of ``smoke``: first one case of each kind (group, type, mode, mask, bias, dropout, determinism, dbias), the
smallest with the fewest additional kernels; then the smallest other cases whose kernels are all built already. The programs are built with
exactly these kernels. A row is good if both sides agree.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.api import Registry, build_registry
from fmha_cli.backends.ck_tile.parity.counterpart import CkCounterpart
from fmha_cli.backends.ck_tile.parity.mapping import map_case
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.counterpart import UpstreamCase
from fmha_cli.domain.problem import Problem
from fmha_cli.parity.suite import load_suite
from tests.checks.check import Check, Row, product

ARCH = "gfx942"
SMOKE = 340
"""Cases of ``smoke``."""
BACKEND = "ck_tile"
_KIND = ("prec", "mode", "deterministic", "dbias")


@dataclass(frozen=True)
class Point:
    """A comparable case: its kernels (none if it is unsupported) and its multiply-adds."""

    case: UpstreamCase
    kernels: frozenset[str]
    work: int

    @property
    def kind(self) -> tuple[str, ...]:
        s = self.case.settings
        drops = str(float(s.get("p_drop", "0")) > 0)
        return (self.case.group, *(s.get(k, "") for k in _KIND), s.get("mask", "0")[0], s.get("bias", "n")[0], drops)


def comparable(arch: str, registry: Registry) -> list[Point]:
    """The comparable cases of ``smoke``."""
    found = []
    for case in load_suite("smoke", CkCounterpart()).cases():
        whole = map_case(case)
        if whole.problem is None or whole.reasons:
            continue
        choice = select(whole.problem, registry, {}, Wanted(backend=BACKEND, arch=arch)).best
        stages = (
            () if choice is None else registry.backend(BACKEND).plan(whole.problem, choice.kernel, choice.device).stages
        )
        found.append(Point(case, frozenset(s.kernel.digest for s in stages), _work(whole.problem)))
    return found


def _work(problem: Problem) -> int:
    queries = sum(problem.seqlens_q) if problem.seqlens_q else problem.batch * problem.seqlen_q
    keys = max(problem.seqlens_k) if problem.seqlens_k else problem.seqlen_k
    return problem.heads * queries * keys * problem.hdim * (2 if problem.direction.forward else 5)


def chosen(points: Sequence[Point], count: int) -> list[Point]:
    """One case of each kind, then the smallest that need no further kernel, ``count`` in all."""
    kinds: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    for point in points:
        kinds[point.kind].append(point)
    kernels: set[str] = set()
    found = []
    for group in kinds.values():
        best = min(group, key=lambda p: (not p.kernels, len(p.kernels - kernels), p.work))
        found.append(best)
        kernels |= best.kernels
    names = {id(point) for point in found}
    rest = [p for p in points if id(p) not in names and p.kernels and p.kernels <= kernels]
    return (found + sorted(rest, key=lambda p: p.work))[: max(count, len(found))]


def suite_of(points: Sequence[Point]) -> dict[str, Any]:
    """The cases as a suite file."""
    basic, smoke = load_suite("basic", CkCounterpart()), load_suite("smoke", CkCounterpart())
    cases = [*basic.cases(), *(p.case for p in points)]
    groups: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for case in cases:
        groups[case.program.value, case.group][case.name] = dict(case.settings)
    sources = [{"file": s.file, "revision": s.revision} for s in dict.fromkeys((*basic.sources, *smoke.sources))]
    matrices = [{"program": program, "group": group, "cases": named} for (program, group), named in groups.items()]
    return {"title": "basic, and the smallest of each kind of smoke", "sources": sources, "matrices": matrices}


def small(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A summary of each case, without the whole records; the only time is that of upstream's program."""
    return [_small(case) for case in document["cases"]]


def _small(case: Mapping[str, Any]) -> dict[str, Any]:
    ours, theirs = case["ours"] or {}, case["upstream"] or {}
    return {
        "group": case["group"],
        "name": case["name"],
        "program": case["program"],
        "problem": case["problem"],
        "outcome": case["outcome"],
        "why": case["why"],
        "devices": sorted({side["device"] for side in (ours, theirs) if side.get("device")}),
        "said": theirs.get("said"),
        "verdict": ours.get("verdict"),
        "findings": {
            "ours": [finding["kind"] for finding in ours.get("findings") or []],
            "upstream": [finding["kind"] for finding in theirs.get("findings") or []],
        },
        "same": {
            "kernels": bool(theirs) and _work_done(ours).keys() == _work_done(theirs).keys(),
            "instructions": bool(theirs) and _work_done(ours) == _work_done(theirs),
        },
        "seconds": None if not theirs else round(theirs["seconds"], 1),
    }


def _work_done(side: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Kernel symbol -> (instructions, matrix FLOP) of one launch."""
    return {
        one["kernel"]: (one["instructions"] // one["launches"], one["matrix_flops"] // one["launches"])
        for one in side.get("executed") or []
    }


def summary(cases: Sequence[Mapping[str, Any]]) -> str:
    """The work of both sides, and every case that does not agree."""
    lines = []
    both = [case for case in cases if case["said"] is not None]
    lines += [
        "",
        f"Run on both sides: {len(both)}, on {', '.join(sorted({d for case in both for d in case['devices']}))}. "
        f"Of these, with the same kernels (symbols of the functions) on both sides: {_count(both, 'kernels')}; and with "
        f"the same number of instructions and matrix operations: {_count(both, 'instructions')}; of the others "
        f"{_stored(both)} have dropout, whose random numbers upstream's programs store too, to verify with. With findings: "
        f"{sum(any(case['findings'].values()) for case in both)}.",
    ]
    odd: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case in cases:
        if not case["outcome"].startswith("agree-"):
            odd[case["outcome"], "; ".join(case["why"])[:300]].append(f"{case['program']} {case['name']}")
    lines += ["", *(f"- {outcome}, {len(names)}: {why}: {', '.join(names)}" for (outcome, why), names in odd.items())]
    return "\n".join(lines).rstrip()


def _count(cases: Sequence[Mapping[str, Any]], what: str) -> int:
    return sum(case["same"][what] for case in cases)


def _stored(cases: Sequence[Mapping[str, Any]]) -> int:
    return sum(not case["same"]["instructions"] and "--dropout" in case["problem"] for case in cases)


def rows_of(arch: str) -> list[Row]:
    """The rows of all cases on an architecture.

    Raises:
        ValueError: ``fmha parity`` wrote no document.
    """
    with tempfile.TemporaryDirectory() as folder:
        suite, out = Path(folder, "smallest.json"), Path(folder, "parity.json")
        suite.write_text(json.dumps(suite_of(chosen(comparable(arch, build_registry()), SMOKE))), "utf-8")
        command = [sys.executable, "-m", "fmha_cli", "parity", "--build-upstream", "--suite", str(suite)]
        command += ["--device", f"emu:{arch}", "--jobs", "2", "--json", "-o", str(out)]
        status = subprocess.run(command, check=False).returncode
        if not out.is_file():
            raise ValueError(f"fmha parity ended with status {status}")
        return list(small(json.loads(out.read_text("utf-8"))))


CHECK = Check(
    cases=lambda: (ARCH,),
    carry_out=rows_of,
    depends=lambda arch: product("fmha-amdgpu-emu"),
    good=lambda row: row["outcome"].startswith("agree-") or row["outcome"] == "not-comparable",
    by=(lambda case: f"{case['program']} {case['group']}", "outcome"),
    summarise=summary,
)
