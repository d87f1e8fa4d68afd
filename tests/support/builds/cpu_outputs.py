"""The results of the CPU's kernels for a problem, through their backend and session and without the judge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Array
from fmha_cli.run.arena import Arena
from fmha_cli.run.cases import Cases
from fmha_cli.run.layout import layout_of

THREADS = 2


def tensors(problem: Problem) -> dict[str, Array]:
    """Random normal inputs, never zeros; for a backward pass also O and LSE of its forward pass."""
    cases = Cases(lambda p, name: fill(p, name, 1), oracle_s=math.inf)
    return dict(cases.case(problem, "normal", stream="fmha", check=False).inputs)


def outputs(problem: Problem, inputs: Mapping[str, Array], cache_root: Path, *names: str) -> list[Array]:
    """The tensors of these names after one launch of the kernel that the backend prefers."""
    backend, device = CpuBackend(), detect()
    found = [one for one in backend.decide(problem, device) if isinstance(one, Supported)]
    plan = backend.plan(problem, min(found, key=lambda one: one.rank).kernel, device)
    artifacts = [backend.build(stage, BuildContext(cache_root=cache_root)).path for stage in plan.stages]
    with Arena(layout_of(problem, plan.workspaces)) as arena:
        arena.write(dict(inputs))
        arena.prepare()
        session = backend.open(device)
        session.load(plan, artifacts)
        session.bind(memoryview(arena._map), arena.layout.tensors, THREADS)
        session.launch()
        got = [np.array(arena.view(name), np.float32) for name in names]
        session.close()
        return got
