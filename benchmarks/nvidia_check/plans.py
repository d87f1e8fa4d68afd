"""The plans of problems for a device that need not be present: the builds, and the kernels that random problems may
use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fmha_cli.backends.cuda.driver import archs_of
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend


def machine_of(arch: str) -> DeviceFacts:
    """A device of an architecture as its probe would describe it: with every architecture whose kernels it runs."""
    spec = load_arch(arch)
    if "compute_capability" not in spec.facts:
        return DeviceFacts.of_arch(arch)
    major, minor = spec.fact("compute_capability")
    known = [name for name in arch_names() if name.startswith("sm_")]
    return replace(DeviceFacts.of_arch(arch), archs=archs_of((int(major), int(minor)), known))


def unserved(backend: Backend, device: DeviceFacts) -> str | None:
    """Why a backend has nothing to check on a device; None if it has kernels for one of the device's architectures."""
    if set(backend.archs()) & set(device.archs):
        return None
    return f"{backend.name} has no kernels for {', '.join(device.archs)}"


def planned(backend: Backend, problem: Problem, device: DeviceFacts, kernels: str = "") -> Plan | str:
    """The plan of the best kernel, of those whose names hold ``kernels``, or the first reason of the nearest refusal."""
    decisions = [d for d in backend.decide(problem, device) if d.kernel is None or kernels in d.kernel.name]
    fits = [d for d in decisions if isinstance(d, Supported)]
    if not decisions:
        return f"no kernel's name holds {kernels}"
    if fits:
        return backend.plan(problem, min(fits, key=lambda d: d.rank).kernel, device)
    refused = min((d for d in decisions if isinstance(d, Unsupported)), key=lambda d: len(d.reasons))
    return f"{refused.reasons[0].id} {refused.reasons[0].text}"


def stages_of(plans: Iterable[Plan]) -> dict[str, Stage]:
    """Every distinct kernel of some plans by its digest, in order."""
    return {stage.kernel.digest: stage for plan in plans for stage in plan.stages}
