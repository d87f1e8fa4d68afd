"""The whole host side of a plan, with the model of the kernels instead of a GPU.

It covers the arena, uploads, parameter blocks, launches, downloads, and the product's own checks of the results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fa_memory import Image
from fa_model import run_kernel

from fmha_cli.backends.flash_attn.arguments import auxiliaries_of, params_of
from fmha_cli.backends.flash_attn.conversions import after_download, before_upload
from fmha_cli.backends.flash_attn.decide import decide
from fmha_cli.backends.flash_attn.launches import launch_of, zeroed
from fmha_cli.backends.flash_attn.plan import plan_of
from fmha_cli.backends.flash_attn.situation import Situation, situation_of
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.struct import pack
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.execution.arena import Arena
from fmha_cli.execution.cases import Cases
from fmha_cli.execution.checks import compared, never_written
from fmha_cli.execution.layout import layout_of
from fmha_cli.execution.memory import map_shared
from fmha_cli.oracle.fills import fill

STREAM = "fa2"
Change = Callable[[Stage, ctypes.Structure], None]
"""A planted fault: changes a packed parameter block before its kernel runs."""


@dataclass(frozen=True)
class Outcome:
    """The result of the product's checks for one run."""

    plan: Plan
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults


def plans_of(problem: Problem, device: DeviceFacts) -> list[Plan]:
    """The plans of every kernel of the device's first architecture that supports a problem, the default first."""
    supported = [d for d in decide(problem, device) if isinstance(d, Supported)]
    ranked = sorted(supported, key=lambda d: d.rank)
    return [plan_of(problem, d.kernel, device) for d in ranked if d.kernel.arch == device.archs[0]]


def run_plan(
    plan: Plan, device: DeviceFacts, *, kind: str = "normal", seed: int = 0, change: Change | None = None
) -> Outcome:
    """Run a plan on the model and judge it like a device's results."""
    problem, situation = plan.problem, situation_of(plan.problem, device)
    cases = Cases(lambda p, f: fill(p, f, seed), oracle_s=60.0)
    case = cases.case(problem, kind, stream=STREAM)
    with Arena(layout_of(problem, plan.workspaces, gaps=True)) as arena:
        arena.write(case.inputs)
        arena.prepare(seed % 2)
        host = np.frombuffer(map_shared(arena.fd, arena.layout.size), np.uint8)
        before_upload(Call(plan, situation, arena.layout.tensors, 0, {}), host)
        device_copy, memory = host.copy(), Image()
        base = memory.add(device_copy)
        addresses = {}
        for name, array in auxiliaries_of(situation).items():
            addresses[name] = memory.add(np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy())
        call = Call(plan, situation, arena.layout.tensors, base, addresses)
        if situation.launches:
            _launch_all(call, memory, change)
        host[...] = device_copy
        after_download(call, host)
        faults = [v.text() for v in arena.violations()] + [c.text() for c in arena.changed_inputs()]
        faults += never_written(problem, arena.unwritten())
        comparison = compared(plan, case, arena.read())
    faults += [f"{name}: {check}" for name, check in comparison.checks if not check.passed]
    return Outcome(plan, tuple(faults))


def _launch_all(call: Call[Situation], memory: Image, change: Change | None) -> None:
    for name in zeroed(call.plan):
        memory.bytes_at(call.address(name), call.tensor(name).shape[0])[...] = 0
    for stage in call.plan.stages:
        block: Any = pack(params_of(stage, call))
        if change is not None:
            change(stage, block)
        launch = launch_of(stage, call)
        if not launch.empty:
            run_kernel(stage.kernel, bytes(block), launch.grid, memory, launch.extra)
