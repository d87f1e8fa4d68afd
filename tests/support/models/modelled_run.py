"""The whole host side of a plan, with a model of the kernels instead of a GPU.

It covers the arena, uploads, parameter blocks, launches, downloads, and the product's own checks of the results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmha_cli.backends.cuda.launch import pack_params
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.gpu.auxiliary import given_tables
from fmha_cli.backends.gpu.call import Call, calls_of
from fmha_cli.backends.gpu.upstream_session import fill_outputs
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.cases import Cases
from fmha_cli.run.checks import compared, never_written
from fmha_cli.run.layout import layout_of
from fmha_cli.run.protocol import map_shared
from tests.support.fakes.played_maps import played_map
from tests.support.models.kernel_memory import Image, Memory

Change = Callable[[Stage, ctypes.Structure], None]
"""A planted fault: changes a packed parameter block before its kernel runs."""
Model = Callable[[KernelSpec, bytes, tuple[int, int, int], Memory, Sequence[int]], None]
"""Runs one kernel over a grid: its parameter block as it lies in constant memory, and the int parameters that follow it."""


@dataclass(frozen=True)
class Outcome:
    """The result of the product's checks for one run."""

    plan: Plan
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults


def plans_of(upstream: CubinUpstream, problem: Problem, device: DeviceFacts) -> list[Plan]:
    """The plans of every kernel of the device's first architecture that supports a problem, the default first."""
    passes = upstream.passes()
    supported = [d for d in passes.decide(problem, device) if isinstance(d, Supported)]
    ranked = sorted(supported, key=lambda d: d.rank)
    return [passes.plan(problem, d.kernel, device) for d in ranked if d.kernel.arch == device.archs[0]]


def run_plan(
    upstream: CubinUpstream,
    model: Model,
    plan: Plan,
    device: DeviceFacts,
    *,
    kind: str = "normal",
    seed: int = 0,
    change: Change | None = None,
    grid: tuple[int, int, int] | None = None,
    strict: bool = False,
) -> Outcome:
    """Run a plan on a model and judge it like a device's results.

    Args:
        grid: launched instead of the product's.
        strict: kernels may touch tensors and workspaces, but not what lies between them.

    Raises:
        BadAddress: the model touched what it may not.
    """
    problem = plan.problem
    cases = Cases(lambda p, f: fill(p, f, seed), oracle_s=60.0)
    case = cases.case(problem, kind, stream=upstream.dropout_stream)
    with Arena(layout_of(problem, plan.workspaces, gaps=True)) as arena:
        arena.write(case.inputs)
        arena.prepare(seed % 2)
        host = np.frombuffer(map_shared(arena.fd, arena.layout.size), np.uint8)

        def calls(base: int, places_of: Callable[[Any], dict[str, int]]) -> tuple[Call[Any], ...]:
            def situation_of(part: Plan) -> Any:
                return upstream.situation_of(part.problem, device)

            tensors = arena.layout.tensors
            return calls_of(plan, situation_of, tensors, base, lambda part, situation: places_of(situation))

        for call in calls(0, lambda situation: {}):
            if upstream.launches(call.situation):
                upstream.before_upload(call, host)
        device_copy, memory = host.copy(), Image()
        parts = [(slot.start, slot.end) for slot in arena.layout.slots if slot.end > slot.start]
        base = memory.add(device_copy, parts if strict else None)

        def uploaded(situation: Any) -> dict[str, int]:
            arrays = dict(upstream.auxiliaries_of(situation))
            arrays |= given_tables(problem, arrays, case.inputs.__getitem__)
            return {n: memory.add(np.ascontiguousarray(x).reshape(-1).view(np.uint8).copy()) for n, x in arrays.items()}

        made = calls(base, uploaded)
        for call in made:
            if upstream.launches(call.situation):
                _launch_all(upstream, model, call, memory, change, grid)
        host[...] = device_copy
        for call in made:
            (upstream.after_download if upstream.launches(call.situation) else fill_outputs)(call, host)
        faults = [v.text() for v in arena.violations()] + [c.text() for c in arena.changed_inputs()]
        faults += never_written(problem, arena.unwritten())
        comparison = compared(plan, case, arena.read())
    faults += [f"{name}: {check}" for name, check in comparison.checks if not check.passed]
    return Outcome(plan, tuple(faults))


def _launch_all(
    upstream: CubinUpstream,
    model: Model,
    call: Call[Any],
    memory: Image,
    change: Change | None,
    grid: tuple[int, int, int] | None,
) -> None:
    def zero(names: Sequence[str]) -> None:
        for name in names:
            memory.bytes_at(call.address(name), call.tensor(name).shape[0])[...] = 0

    zero(upstream.list_zeroed(call.plan))
    for stage in call.plan.stages:
        block = pack_params(upstream.params_of(stage, call), played_map)
        if change is not None:
            change(stage, block)
        launch = upstream.launch_of(stage, call)
        for name in launch.cleared:
            memory.bytes_at(call.address(name), call.tensor(name).shape[0])[...] = 0
        zero(launch.cleared)
        if not launch.empty:
            model(stage.kernel, bytes(block), grid or launch.grid, memory, launch.extra)
