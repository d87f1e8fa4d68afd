"""Whole plans on the emulated AArch64 processor: the backend's choice, its argument blocks, and the judge's comparison."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.arguments import Arguments, interface_of
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.cases import Cases
from fmha_cli.run.checks import compared
from fmha_cli.run.layout import layout_of
from tests.support.builds.arm_emulated import Emulator

Text = Callable[[KernelSpec], str]


def arm_plan(problem: Problem, arch: str) -> Plan:
    """The plan of a problem on a processor of one architecture.

    Raises:
        ValueError: no kernel serves it.
    """
    device = DeviceFacts(id="cpu", archs=(arch,))
    found = [d for d in backend.decide(problem, device) if isinstance(d, Supported)]
    return backend.plan(problem, min(found, key=lambda d: d.rank).kernel, device)


def complaints(arm: Emulator, plan: Plan, work: Path, text: Text = emit) -> list[str]:
    """What is wrong after one launch of a plan in an arena with guards and poison, as the judge sees it."""
    layout = layout_of(plan.problem, plan.workspaces, gaps=True)
    case = Cases(fill, oracle_s=math.inf).case(plan.problem, "normal", stream="fmha")
    with Arena(layout) as arena:
        arena.write(case.inputs)
        arena.prepare()
        q = arena.view("q")
        base = q.ctypes.data - layout.slot("q").start
        for problem, stage in ((part.problem, stage) for part in plan.passes() for stage in part.stages):
            interface = interface_of(stage.kernel)
            arguments = Arguments(interface.block, problem, layout.tensors, base, 2)
            library = arm.build(stage.kernel, text(stage.kernel))
            lengths_and_tables = {str(n): np.frombuffer(a, a._type_) for n, a in enumerate(arguments._arrays)}
            arrays = {"arena": q, **lengths_and_tables}
            status = arm.call(library, interface.entry, arguments.block, arrays, work)
            if status:
                return [f"{stage.kernel.name}: status {status}"]
        found = [v.text() for v in arena.violations()] + [c.text() for c in arena.changed_inputs()]
        comparison = compared(plan, case, arena.read())
    wrong = [f"{name}: {check}" for name, check in comparison.checks if not check.passed]
    return [*found, *wrong] if comparison.checks else [comparison.distrust or "nothing was compared"]
