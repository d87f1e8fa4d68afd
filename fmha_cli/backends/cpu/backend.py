"""The CPU backend: generated C++, the system's compiler, one library for each (architecture, dtype, kind)."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from fmha_cli.backends.cpu.arch_detect import ARCHS, detect
from fmha_cli.backends.cpu.kernels import BACKEND, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.kernel import Algorithm, KernelSpec
from fmha_cli.domain.own import own


class CpuBackend:
    """See ``fmha_cli.domain.protocols`` (Backend), ``domain.measuring`` (PeakLoops, Canary, Tunable), ``domain.tuning`` (Varied) and
    ``domain.invariance`` (Promising) for the contract of the methods."""

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

    rules = own(".tile_rules")
    refusals = own(".tile_rules", "tile_reasons")
    variants = own(".variants")
    decide_variants = own(".variants")
    decide = own(".decide")
    plan = own(".decide")
    build = own(".building", "build_cpu")
    cache_key = own(".building", "cpu_key")
    inspect = own(".inspection", "inspect_cpu")
    open = own(".session", "CpuSession")
    promises = own(".promises")
    build_peaks = own(".peaks", "build_peak_loops")
    run_peaks = own(".peaks", "run_peak_loops")
    run_canary = own(".peaks")
    default_settings = own(".settings", "settings_here")
    worth_measuring = own(".settings")
    measure_settings = own(".settings")

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return None
