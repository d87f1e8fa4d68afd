"""PyTorch's attention kernels as a backend. PyTorch is imported in the worker alone, with the session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from fmha_cli import api
from fmha_torch.kernels import TorchAlgorithm, archs, kernels_of, table
from fmha_torch.rules import RULES, discord

NOTE = "the order in which SDPA takes its kernels; then flex_attention"
QUIET = {"OMP_WAIT_POLICY": "PASSIVE", "KINETO_LOG_LEVEL": "5"}
"""Set while PyTorch is imported: its idle threads sleep, since spinning ones slow whatever runs next."""


class TorchBackend:
    """The kernels of ``limits.json``."""

    name = "torch"
    algorithm: type[api.Algorithm] = TorchAlgorithm
    dropout_stream = "fmha"
    automatic = False

    @property
    def probes_in_parent(self) -> bool:
        """A build for the CPU is known by its files; one for GPUs must open a driver, and answers from the worker."""
        return not _built_for_gpu()

    def probe(self) -> api.Availability:
        least = table()["torch"]["least"]
        here, help = _version(), f'pip install "torch>={least}"'
        if here is None:
            return api.Availability(state=api.State.MISSING, why="PyTorch is not installed", help=help)
        if _numbers(here) < _numbers(least):
            why = f"PyTorch {here} is older than {least}"
            return api.Availability(state=api.State.MISSING, why=why, help=help, version=here)
        cpu = api.DeviceFacts(id="cpu", archs=tuple(table()["places"]["cpu"]["archs"]), name=f"PyTorch {here}")
        gpus = tuple(_gpus()) if _built_for_gpu() else ()
        return api.Availability(state=api.State.OK, devices=(*gpus, cpu), version=here)

    def archs(self) -> tuple[str, ...]:
        return archs()

    def kernels(self, arch: api.ArchSpec) -> Iterator[api.KernelSpec]:
        return iter(kernels_of(arch.name))

    def rules(self) -> tuple[api.Rule, ...]:
        return RULES

    def decide(self, problem: api.Problem, device: api.DeviceFacts) -> Iterator[api.Decision]:
        yield from api.TwoPasses(self._decide, self._plan, discord).decide(problem, device)

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Plan:
        return api.TwoPasses(self._decide, self._plan, discord).plan(problem, kernel, device)

    def _decide(self, problem: api.Problem, device: api.DeviceFacts) -> Iterator[api.Decision]:
        for arch in [name for name in device.archs if name in self.archs()] or self.archs()[:1]:
            for place, kernel in enumerate(kernels_of(arch)):
                reasons = tuple(api.reasons_against(RULES, problem, kernel, device))
                if reasons:
                    yield api.Unsupported(self.name, arch, kernel, reasons)
                else:
                    yield api.Supported(kernel, (place,), NOTE)

    def _plan(self, problem: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Plan:
        return api.Plan(problem, (api.Stage(kernel),))

    def build(self, stage: api.Stage, context: api.BuildContext) -> api.Artifact:
        return api.no_build(stage, context)

    def cache_key(self, stage: api.Stage, context: api.BuildContext) -> object:
        return api.no_build_key(stage)

    def inspect(self, kernel: api.KernelSpec, artifact: api.Artifact) -> dict[str, object]:
        return {}

    def upstream_name(self, kernel: api.KernelSpec) -> str | None:
        return None

    def open(self, device: api.DeviceFacts) -> api.Session:
        quietly_imported()
        from fmha_torch.session import TorchSession

        return TorchSession("cpu" if device.id == "cpu" else f"cuda:{device.id.partition(':')[2]}")


def quietly_imported() -> None:
    """Import PyTorch with ``QUIET``; the environment is as before afterwards, for what else the worker loads.

    Raises:
        EnvironmentProblem: it does not import.
    """
    before = {name: os.environ.get(name) for name in QUIET}
    os.environ.update({name: value for name, value in QUIET.items() if before[name] is None})
    try:
        import torch._dynamo.config
        import torch._inductor.config
    except ImportError as fault:
        raise api.EnvironmentProblem("PyTorch does not import", code="K920", why=str(fault)) from fault
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
    torch._inductor.config.compile_threads = 1  # else a pool of compilers stays beside the timed launches
    torch._dynamo.config.recompile_limit = 1 << 16  # every row compiles anew; at the limit, eager code would run
    torch._dynamo.config.accumulated_recompile_limit = 1 << 16


@cache
def _version() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:2])


@cache
def _built_for_gpu() -> bool:
    """Whether ``torch/version.py`` names CUDA or HIP; the file is read, not imported."""
    spec = find_spec("torch")
    for folder in spec.submodule_search_locations or () if spec else ():
        file = Path(folder) / "version.py"
        if file.is_file():
            return re.search(r"^(cuda|hip)\b[^=]*= *'", file.read_text("utf-8"), re.MULTILINE) is not None
    return False


def _gpus() -> Iterator[api.DeviceFacts]:
    """The GPUs that PyTorch sees; in the worker."""
    quietly_imported()
    import torch

    kind = "hip" if torch.version.hip else "cuda"
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        arch = facts.gcnArchName.partition(":")[0] if kind == "hip" else f"sm_{facts.major}{facts.minor}"
        units, memory = facts.multi_processor_count, facts.total_memory
        yield api.DeviceFacts(id=f"{kind}:{number}", archs=(arch,), name=facts.name, units=units, memory_bytes=memory)


@api.hookimpl
def fmha_register_backends() -> list[api.Backend]:
    return [TorchBackend()]
