"""The CPU backend: generated C++, the system's compiler, one library for each (architecture, dtype, kind)."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from fmha_cli.backends.cpu.arch_detect import ARCHS, detect
from fmha_cli.backends.cpu.kernels import BACKEND, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.kernel import Algorithm, KernelSpec
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import this_processor
from fmha_cli.domain.protocols import BuildContext, Session
from fmha_cli.domain.rules import Reason, Rule
from fmha_cli.domain.settings import Settings

# Each method imports what it needs: listing kernels needs neither rules nor stages, and only building needs a compiler.


class CpuBackend:
    """See ``fmha_cli.domain.protocols.Backend`` for the contract of the methods."""

    name = BACKEND
    algorithm: type[Algorithm] = CpuAlgorithm
    dropout_stream = "fmha"
    probes_in_parent = True
    automatic = True

    def probe(self) -> Availability:
        return Availability(state=State.OK, devices=(detect(),), version=platform.machine())

    def archs(self) -> tuple[str, ...]:
        return ARCHS

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return cpu_kernels(arch)

    def rules(self) -> tuple[Rule, ...]:
        from fmha_cli.backends.cpu.rules import CPU_RULES
        from fmha_cli.backends.cpu.tile_rules import TILE_RULES

        return (*CPU_RULES, *TILE_RULES)

    def variants(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        from fmha_cli.backends.cpu.variants import variants

        return variants(arch)

    def decide_variants(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        from fmha_cli.backends.cpu.variants import decide_variants

        return () if problem.direction.backward else decide_variants(problem, device)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        from fmha_cli.backends.cpu.tile_rules import tile_reasons

        return tile_reasons(kernel)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        from fmha_cli.backends.cpu.decide import PASSES

        return PASSES.decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        from fmha_cli.backends.cpu.decide import PASSES

        return PASSES.plan(problem, kernel, device)

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.backends.cpu.building import build_cpu

        return build_cpu(stage.kernel, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        from fmha_cli.backends.cpu.building import cpu_key

        return cpu_key(stage.kernel, context)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        from fmha_cli.backends.cpu.inspection import inspect_library

        return inspect_library(artifact.path)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return None

    def open(self, device: DeviceFacts) -> Session:
        from fmha_cli.backends.cpu.session import CpuSession

        return CpuSession(device)

    def build_peaks(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        from fmha_cli.backends.cpu.peaks import build_peak_loops

        return build_peak_loops(device, context)

    def run_peaks(self, artifact: Path, threads: int) -> dict[str, object]:
        from fmha_cli.backends.cpu.peaks import run_peak_loops

        return run_peak_loops(artifact, threads)

    def default_settings(self, kernel: KernelSpec, device: DeviceFacts) -> Settings | None:
        from fmha_cli.backends.cpu.settings import default_settings

        return default_settings(kernel, this_processor())

    def worth_measuring(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> bool:
        from fmha_cli.backends.cpu.settings import worth_measuring

        return worth_measuring(problem, kernel, device)

    def measure_settings(self, artifact: Path, kernel: KernelSpec, threads: int) -> Mapping[str, int]:
        from fmha_cli.backends.cpu.settings import measure_settings

        return measure_settings(artifact, kernel, threads)

    def run_canary(self, artifact: Path, threads: int, *, memory: bool) -> float:
        from fmha_cli.backends.cpu.peaks import run_canary

        return run_canary(artifact, threads, memory=memory)
