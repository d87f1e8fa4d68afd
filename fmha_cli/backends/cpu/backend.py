"""The CPU backend: generated C++, the system's compiler, one library for each (architecture, dtype, kind)."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fmha_cli.backends.cpu.arch_detect import ARCHS, detect
from fmha_cli.backends.cpu.kernels import BACKEND, algorithm_of, cpu_kernels
from fmha_cli.backends.cpu.rules import CPU_RULES
from fmha_cli.backends.cpu.stages import plan_of
from fmha_cli.backends.cpu.tile_rules import TILE_RULES, tile_reasons
from fmha_cli.backends.cpu.variants import decide_variants, variants
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, Kind
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.kernel import Algorithm, KernelSpec
from fmha_cli.domain.passes import TwoPasses
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import this_processor
from fmha_cli.domain.protocols import BuildContext, Session
from fmha_cli.domain.rules import Reason, Rule, reasons_against
from fmha_cli.domain.settings import Settings

DECODE_QUERIES = 16
"""Up to this sequence length a decode kernel is the faster one where it fits (docs/cpu-kernel.md, Decode)."""


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
        return (*CPU_RULES, *TILE_RULES)

    def variants(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return variants(arch)

    def decide_variants(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return () if problem.direction.backward else decide_variants(problem, device)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        return tile_reasons(kernel)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return _PASSES.decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return _PASSES.plan(problem, kernel, device)

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.backends.cpu.building import build_cpu  # listing kernels needs no compiler

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
        from fmha_cli.backends.cpu.settings import measured_settings

        return measured_settings(artifact, kernel, threads)

    def run_canary(self, artifact: Path, threads: int, *, memory: bool) -> float:
        from fmha_cli.backends.cpu.peaks import run_canary

        return run_canary(artifact, threads, memory=memory)


def _decide(problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
    """The decision about every kernel, for a problem of one direction."""
    rows = max(problem.query_lengths(), default=0)
    few = rows <= DECODE_QUERIES
    before: dict[Kind, str] = {}  # the first architecture whose kernel of a kind fits
    for place, arch in enumerate(a for a in device.archs if a in ARCHS):
        for kernel in cpu_kernels(load_arch(arch)):
            if algorithm_of(kernel).kind in (Kind.COMBINE, Kind.APPEND):
                continue  # stages around other kernels
            reasons = reasons_against(CPU_RULES, problem, kernel, device)
            if reasons:
                yield Unsupported(BACKEND, arch, kernel, tuple(reasons))
                continue
            kind = algorithm_of(kernel).kind
            ahead = before.setdefault(kind, arch)
            first = None if ahead == arch else ahead
            if kind in _ALONE:
                yield Supported(kernel, (0, place), _late(first) if first else f"the architecture's {_ALONE[kind]}")
            else:
                decode = kind is Kind.DECODE
                note = _note(rows, decode=decode, few=few, first=first)
                yield Supported(kernel, (int(decode is not few), place), note)


_ALONE = {Kind.BACKWARD: "backward kernel", Kind.SPLIT: "kernel for split keys, a combine kernel after it"}
"""Kinds whose kernels no other kind of the architecture competes with."""

_PASSES = TwoPasses(_decide, plan_of)
"""Backward kernels read O and LSE where forward kernels leave them, so every pair of kernels is possible."""


def _late(first: str) -> str:
    return f"not the first choice: {first} comes first"


def _note(rows: int, *, decode: bool, few: bool, first: str | None) -> str:
    """The reason for a kernel's rank. ``first`` names the architecture that comes before the kernel's, if one does."""
    late = [f"{first} comes first"] if first else []
    if decode is few:
        kind = "a decode kernel streams K and V once" if decode else "in a prefill kernel many rows share each key"
        return _late(first) if first else f"{rows} query rows: {kind}"
    late.append(f"a {'decode' if few else 'prefill'} kernel is faster for {rows} query rows")
    return f"not the first choice: {' and '.join(late)}"
