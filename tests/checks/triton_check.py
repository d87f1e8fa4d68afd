"""Execute the kernels of ``plugins/fmha-triton`` on emulated AMD and NVIDIA devices, and judge their results.

``triton_problems.py`` has the problems. Each goes through the same walk as ``fmha run``: chosen, compiled by Triton for the architecture,
launched on the emulated device, compared with the reference in float64. A row stands while the kernels that would be built for its problem are
those that it was executed with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_triton import TritonBackend
from fmha_triton.building import cache_key
from fmha_triton.catalogue import algorithm_of

from fmha_cli import api, plugin
from fmha_cli.domain.codec import to_json
from tests.checks.check import Check
from tests.checks.triton_problems import TritonProblem, all_problems


@dataclass(frozen=True)
class TritonPoint:
    """A problem on an architecture."""

    arch: str
    problem: TritonProblem

    @property
    def name(self) -> str:
        ctas = f", {self.problem.ctas} CTAs" * bool(self.problem.ctas)
        return f"{self.arch} {self.problem.kind}{ctas}: {self.problem.flags}"


def points() -> Iterator[TritonPoint]:
    """Every problem on each of its architectures."""
    return (TritonPoint(arch, problem) for problem in all_problems() for arch in problem.archs)


def device_of(arch: str) -> str:
    """The emulated device that runs an architecture's kernels: ``emu:sm_120`` runs the code of sm_120a too."""
    return "emu:sm_120" if arch == "sm_120a" else f"emu:{arch}"


def chosen(point: TritonPoint) -> api.KernelSpec | None:
    """The first kernel, of those with the problem's number of CTAs if it names one. None if there is none on this architecture."""
    backend, device, ctas = TritonBackend(driven=False), plugin.DeviceFacts.of_arch(point.arch), point.problem.ctas
    decisions = backend.decide(api.Problem.from_cli(point.problem.flags), device)
    fitting = [d for d in decisions if isinstance(d, api.Supported) and ctas in (None, algorithm_of(d.kernel).num_ctas)]
    return min(fitting, key=lambda d: d.rank).kernel if fitting else None


def build_of(point: TritonPoint) -> str | None:
    """A digest of everything that is built: texts, options, Triton's version, the compiling program. None if it is refused.

    Raises:
        EnvironmentProblem: K972, Triton is not installed.
    """
    kernel = chosen(point)
    if kernel is None:
        return None
    problem, device = api.Problem.from_cli(point.problem.flags), plugin.DeviceFacts.of_arch(point.arch)
    plan = TritonBackend(driven=False).plan(problem, kernel, device)
    keys = " ".join(cache_key(stage, plugin.BuildContext(cache_root=Path())).digest for stage in plan.stages)
    return hashlib.sha256(keys.encode()).hexdigest()


def executed(point: TritonPoint) -> dict[str, Any]:
    """Execute and judge one point."""
    arch, flags = point.arch, point.problem.flags
    row: dict[str, Any] = {"arch": arch, "kind": point.problem.kind, "flags": flags}
    try:
        named = chosen(point) if point.problem.ctas else None
        problem, kernel = api.Problem.from_cli(flags), named.name if named else None
        (record,) = api.run(problem, backend="triton", device=device_of(arch), kernel=kernel)
    except api.FmhaError as fault:
        return {**row, "verdict": "REFUSED", "why": str(fault), "kernel": None, "error": None, "executed": None}
    document = to_json(record)
    figures = {name: one for name, one in (document["checks"] or {}).items() if one}
    passed = document["verdict"] == "PASSED" and not document["findings"]
    return {
        **row,
        "verdict": "PASSED" if passed else f"{document['verdict']} with findings" if figures else document["verdict"],
        "why": None if passed else json.dumps(document["findings"] or figures or document["notes"])[:600],
        "kernel": document["kernel"] and document["kernel"]["digest"],
        "error": {name: {"row_l2": one["row_l2"], "budget": one["row_l2_budget"]} for name, one in figures.items()},
        "executed": [{k: s[k] for k in ("kernel", "instructions", "matrix_flops")} for s in document["executed"] or ()],
    }


CHECK = Check(cases=points, name=lambda point: point.name, carry_out=executed, depends=build_of, by=("kind", "arch"))
