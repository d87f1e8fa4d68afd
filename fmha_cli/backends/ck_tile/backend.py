"""The CK-Tile backend: Composable Kernel's FMHA kernels for AMD GPUs, each generated and built when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from fmha_cli.backends.ck_tile.revisions import BASELINE, HOME_OPTION, NAME, revision_of, revisions, serves
from fmha_cli.backends.gpu.devices import report_undriven
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.arch import ArchSpec, arch_names, load_arch
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.own import own
from fmha_cli.domain.passes import TwoPasses
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext

DRIVERS = (Path("/dev/kfd"), Path("/dev/dxg"))
"""Device nodes of the AMD GPU drivers: Linux's amdgpu, and Windows' driver under WSL. The check costs nothing, so a
machine without a driver starts neither a worker nor a runtime to find that out."""


class CkTileBackend:
    """See ``fmha_cli.domain.protocols`` (Backend, Catalogued, Counting, Revised, Batched, DryRun, Keyed) and ``domain.installation`` (Doctored,
    Sourced) and ``domain.counterpart`` (Comparable) for the contract of the methods."""

    name = NAME
    algorithm: type[Algorithm] = CkAlgorithm
    dropout_stream = "ck"
    automatic = True
    runtimes = ("hip",)
    home_option: str | None = HOME_OPTION

    def __init__(self, drivers: Sequence[Path] = DRIVERS, revision: str = BASELINE) -> None:
        self._drivers, self.revision = drivers, revision
        self._driven = any(path.exists() for path in drivers)
        self.probes_in_parent = not self._driven  # without a driver there is nothing to open

    def probe(self) -> Availability:
        if not self._driven:
            return report_undriven("AMD", DRIVERS[0])
        from fmha_cli.backends.hip.runtime import probe_hip

        return probe_hip()

    def archs(self) -> tuple[str, ...]:
        """Architectures for which any revision has kernels, so kernels of later revisions can be listed too."""
        amd = (load_arch(name) for name in arch_names() if name.startswith("gfx"))
        return tuple(arch.name for arch in amd if any(serves(arch, revision.name) for revision in revisions()))

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """The revision's kernels (by default the baseline's); none for an architecture that only another one supports."""
        from fmha_cli.backends.ck_tile.catalogue import buildable_kernels

        for family in Family:
            yield from buildable_kernels(arch, family, self.revision)

    def revisions(self) -> tuple[str, ...]:
        return tuple(revision.name for revision in revisions())

    def at_revision(self, name: str) -> CkTileBackend:
        return CkTileBackend(self._drivers, revision_of(name).name)

    catalogue = own(".catalogue", "kernels")
    count = own(".catalogue")
    refusals = own(".kernel_rules")
    rules = own(".problem_rules")
    upstream_name = own(".upstream_names")
    export_tuned = own(".tuned_files")
    compile_bytes = own(".building")
    build = own(".building", "build_ck")
    cache_key = own(".building", "ck_key")
    inspect = own(".inspection", "inspect_ck")
    open = own(".session", "CkSession")
    checkers = own(".checks")
    source_tree = own(".checks")
    home_files = own(".tree", "watched_files")
    counterpart = own(".parity.counterpart", "CkCounterpart")
    build_recorder = own(".building")
    describe_launches = own(".dry_run")

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self._passes().decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return self._passes().plan(problem, kernel, device)

    def _passes(self) -> TwoPasses:
        from fmha_cli.backends.ck_tile.decide import decide
        from fmha_cli.backends.ck_tile.plan import plan_of

        return TwoPasses(partial(decide, revision=self.revision), plan_of)

    def prepare(self, context: BuildContext) -> object:
        from fmha_cli.backends.ck_tile.building import require_sources, workshop

        require_sources(self.revision, context)
        return workshop(context)
