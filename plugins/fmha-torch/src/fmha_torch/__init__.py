"""PyTorch's attention kernels as a backend. PyTorch is imported in the worker alone, with the session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fmha_cli import api, plugin
from fmha_cli.plugin import DeviceFacts, Plan, Stage, TwoPasses
from fmha_torch.kernels import TorchAlgorithm, kernels_of, table
from fmha_torch.rules import RULES, discord

QUIET = {"GOMP_SPINCOUNT": "2000", "KINETO_LOG_LEVEL": "5"}
"""Set while PyTorch is imported: idle threads sleep after microseconds, since spinning ones slow the next row."""


class TorchBackend(plugin.FrameworkBackend):
    """The kernels of ``limits.json``."""

    name = distribution = "torch"
    algorithm: type[plugin.Algorithm] = TorchAlgorithm

    def __init__(self) -> None:
        self.errors, self.tried = table()["errors"], tuple(table()["torch"]["tried"])
        self.probes_in_parent = not built_for_gpu()  # such a build must open a driver, and answers from the worker
        self._passes = TwoPasses(self._decide, lambda p, kernel, device: Plan(p, (Stage(kernel),)), discord)

    def probe(self) -> plugin.Availability:
        found = plugin.probe_package("torch", table()["torch"]["least"])
        cpu = DeviceFacts(id="cpu", archs=tuple(table()["places"]["cpu"]["archs"]), name=f"PyTorch {found.version}")
        gpus = tuple(_gpus()) if found.state is plugin.State.OK and built_for_gpu() else ()
        return replace(found, devices=(*gpus, cpu)) if found.state is plugin.State.OK else found

    def archs(self) -> tuple[str, ...]:
        return tuple(arch for place in table()["places"].values() for arch in place["archs"])

    def kernels(self, arch: plugin.ArchSpec) -> Iterator[api.KernelSpec]:
        return iter(kernels_of(arch.name))

    def rules(self) -> tuple[plugin.Rule, ...]:
        return RULES

    def decide(self, problem: api.Problem, device: DeviceFacts) -> Iterator[api.Decision]:
        yield from self._passes.decide(problem, device)

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: DeviceFacts) -> Plan:
        return self._passes.plan(problem, kernel, device)

    def _decide(self, problem: api.Problem, device: DeviceFacts) -> Iterator[api.Decision]:
        for arch in [name for name in device.archs if name in self.archs()] or self.archs()[:1]:
            yield from self.ranked(kernels_of(arch), RULES, problem, device, "SDPA's own order, then flex_attention")

    def open(self, device: DeviceFacts) -> plugin.Session:
        import_quietly()
        from fmha_torch.session import TorchSession

        return TorchSession("cpu" if device.id == "cpu" else f"cuda:{device.id.partition(':')[2]}")


def import_quietly() -> None:
    """Import PyTorch with ``QUIET``. Raises EnvironmentProblem: K920, it does not import."""
    try:
        with plugin.environment(QUIET):
            import torch._dynamo.config
            import torch._inductor.config
    except ImportError as fault:
        raise api.EnvironmentProblem("PyTorch does not import", code="K920", why=str(fault)) from fault
    torch._inductor.config.compile_threads = 1  # else a pool of compilers stays around during timed launches
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1 << 16  # else eager runs


@cache
def built_for_gpu() -> bool:
    """Whether ``torch/version.py`` names CUDA or HIP; the file is read, not imported."""
    spec = find_spec("torch")
    files = [Path(folder) / "version.py" for folder in (spec.submodule_search_locations or () if spec else ())]
    return any(re.search(r"^(cuda|hip)\b[^=]*= *'", f.read_text("utf-8"), re.MULTILINE) for f in files if f.is_file())


def _gpus() -> Iterator[DeviceFacts]:
    """The GPUs that PyTorch sees; in the worker."""
    import_quietly()
    import torch

    kind = "hip" if torch.version.hip else "cuda"
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        arch = facts.gcnArchName.partition(":")[0] if kind == "hip" else f"sm_{facts.major}{facts.minor}"
        units, memory = facts.multi_processor_count, facts.total_memory
        yield DeviceFacts(id=f"{kind}:{number}", archs=(arch,), name=facts.name, units=units, memory_bytes=memory)


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [TorchBackend()]
