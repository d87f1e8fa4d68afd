"""The CK-Tile backend: Composable Kernel's FMHA kernels for AMD GPUs, each generated and built when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.backends.ck_tile.revisions import BASELINE, HOME_OPTION, NAME, revision_of, revisions, serves
from fmha_cli.backends.gpu.devices import report_undriven
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.arch import ArchSpec, arch_names, load_arch
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.passes import TwoPasses
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor, BuildContext, LaunchView, Session
from fmha_cli.domain.rules import Reason, Rule

if TYPE_CHECKING:
    from fmha_cli.domain.counterpart import Counterpart
    from fmha_cli.domain.installation import Checker, SourceTree, Surroundings
    from fmha_cli.domain.tuning import TunedFile, TunedKernel

# Each method imports what it needs: listing kernels needs no problem rules, choosing a kernel needs no compiler, and
# only running needs a runtime.

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

    def catalogue(
        self,
        arch: ArchSpec,
        profile: str | None,
        revision: str | None,
        families: Sequence[Family] | None = None,
    ) -> Iterable[KernelSpec]:
        from fmha_cli.backends.ck_tile.catalogue import kernels

        return kernels(arch, revision, profile, tuple(Family) if families is None else families)

    def count(self, arch: ArchSpec, revision: str | None, families: Sequence[Family]) -> int:
        from fmha_cli.backends.ck_tile.catalogue import count

        return count(arch, families, revision)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        from fmha_cli.backends.ck_tile.kernel_rules import refusals

        return refusals(kernel)

    def rules(self) -> tuple[Rule, ...]:
        from fmha_cli.backends.ck_tile.kernel_rules import KERNEL_RULES
        from fmha_cli.backends.ck_tile.problem_rules import PROBLEM_RULES, SHARED_RULES

        return (*SHARED_RULES, *KERNEL_RULES, *PROBLEM_RULES)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self._passes().decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return self._passes().plan(problem, kernel, device)

    def _passes(self) -> TwoPasses:
        from fmha_cli.backends.ck_tile.decide import decide
        from fmha_cli.backends.ck_tile.plan import plan_of

        return TwoPasses(partial(decide, revision=self.revision), plan_of)

    def export_tuned(self, form: str, kernels: Sequence[TunedKernel], options: Mapping[str, str]) -> TunedFile:
        from fmha_cli.backends.ck_tile.tuned_files import export_tuned

        return export_tuned(form, kernels, options)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        from fmha_cli.backends.ck_tile.upstream_names import upstream_name

        return upstream_name(kernel)

    def prepare(self, context: BuildContext) -> object:
        from fmha_cli.backends.ck_tile.building import require_sources, workshop

        require_sources(self.revision, context)
        return workshop(context)

    def compile_bytes(self, kernel: KernelSpec) -> int:
        from fmha_cli.backends.ck_tile.building import compile_bytes

        return compile_bytes(kernel)

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.backends.ck_tile.building import build_ck

        return build_ck(stage.kernel, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        from fmha_cli.backends.ck_tile.building import ck_key

        return ck_key(stage.kernel, context)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        from fmha_cli.backends.ck_tile.inspection import inspect_ck

        return inspect_ck(kernel, artifact)

    def open(self, device: DeviceFacts) -> Session:
        from fmha_cli.backends.ck_tile.session import CkSession

        return CkSession(device)

    def checkers(self) -> Sequence[Checker]:
        from fmha_cli.backends.ck_tile.checks import check_compilers, check_tree
        from fmha_cli.backends.hip.library import check_bindings

        return check_tree, check_compilers, check_bindings

    def home_files(self, home: str) -> Mapping[str, Path]:
        from fmha_cli.backends.ck_tile.tree import watched_files
        from fmha_cli.sources.homes import home_path

        return watched_files(home_path(home))

    def source_tree(self, surroundings: Surroundings) -> SourceTree:
        from fmha_cli.backends.ck_tile.checks import source_tree

        return source_tree(surroundings)

    def counterpart(self) -> Counterpart:
        from fmha_cli.backends.ck_tile.parity.counterpart import CkCounterpart

        return CkCounterpart()

    def build_recorder(self, context: BuildContext) -> Artifact:
        from fmha_cli.backends.ck_tile.standin import build_standin

        return build_standin(context)

    def describe_launches(
        self,
        plan: Plan,
        artifacts: Sequence[Path],
        tensors: Mapping[str, BoundTensor],
        device: DeviceFacts,
        recorder: Path | None,
    ) -> tuple[LaunchView, ...]:
        from fmha_cli.backends.ck_tile.dry_run import describe_launches

        assert recorder is not None
        return describe_launches(plan, artifacts, tensors, recorder)
