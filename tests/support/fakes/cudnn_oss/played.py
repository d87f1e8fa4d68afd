"""Plans for a session on the stand-in driver, with cubins that have parameters and no code."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from tests.support.fakes.exports import fake_exports
from tests.support.models.modelled_run import plans_of


def device_of(arch: str) -> DeviceFacts:
    return DeviceFacts(id="cuda:0", archs=(arch,), units=3, llc_bytes=1 << 20)


def plan_of(arch: str, line: str) -> Plan:
    return plans_of(UPSTREAM, Problem.from_cli(f"--dtype bf16 {line}"), device_of(arch))[0]


def cubin_of(plan: Plan, folder: Path, *, drift: int = 0) -> Path:
    """Write the cubin of a plan's kernel, whose last parameter is longer by ``drift`` bytes."""
    path = folder / f"{plan.main.digest}.cubin"
    path.write_bytes(fake_exports(plan.main.arch, UPSTREAM.expect_exports(plan.main), drift=drift))
    return path
