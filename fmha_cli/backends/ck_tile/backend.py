"""The CK-Tile backend: Composable Kernel's FMHA kernels for AMD GPUs, generated one by one and built when needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fmha_cli.arch import ArchSpec, arch_names, load_arch
from fmha_cli.backends.ck_tile.revisions import BASELINE, NAME, arch_class, revisions
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.decision import Decision
from fmha_cli.device import Availability, DeviceFacts, State
from fmha_cli.kernel import Algorithm, Family, KernelSpec
from fmha_cli.plan import Artifact, Plan, Stage
from fmha_cli.problem import Problem
from fmha_cli.protocols import BoundTensor, BuildContext, LaunchView, Session
from fmha_cli.rules import CORE_RULES, Reason, Rule

# Whatever a method needs is imported in it: listing kernels needs no rules of problems, choosing no compiler, and
# nothing but running needs a runtime.

DRIVERS = (Path("/dev/kfd"), Path("/dev/dxg"))
"""Where the drivers of AMD GPUs show themselves: Linux's amdgpu, and Windows' under WSL. Looking costs nothing, so a
machine without one does not pay for a worker and a runtime to be told so."""


class CkTileBackend:
    """See ``fmha_cli.protocols`` (Backend, Catalogued, Batched, DryRun, Keyed) for the contract of the methods."""

    name = NAME
    algorithm: type[Algorithm] = CkAlgorithm
    dropout_stream = "ck"
    automatic = True
    runtime = "hip"

    def __init__(self, drivers: Sequence[Path] = DRIVERS) -> None:
        self._driven = any(path.exists() for path in drivers)
        self.probes_in_parent = not self._driven  # without a driver there is nothing to open

    def probe(self) -> Availability:
        if not self._driven:
            why = f"no AMD GPU driver is loaded here ({DRIVERS[0]} is missing)"
            return Availability(state=State.NO_DEVICE, why=why, help="--arch A builds for an architecture without one")
        from fmha_cli.backends.hip.probe import probe_hip

        return probe_hip()

    def archs(self) -> tuple[str, ...]:
        """Those for which some revision has kernels, so that a later one's can be listed too."""
        amd = (load_arch(name) for name in arch_names() if name.startswith("gfx"))
        return tuple(
            arch.name
            for arch in amd
            if any(arch_class(arch, family, revision.name) for revision in revisions() for family in Family)
        )

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """The baseline's; none for an architecture that only a later revision has."""
        from fmha_cli.backends.ck_tile.catalogue import buildable_kernels

        for family in Family:
            yield from buildable_kernels(arch, family, BASELINE)

    def revisions(self) -> tuple[str, ...]:
        return tuple(revision.name for revision in revisions())

    def catalogue(
        self,
        arch: ArchSpec,
        profile: str | None,
        revision: str | None,
        families: Sequence[Family] | None = None,
    ) -> Iterable[KernelSpec]:
        from fmha_cli.backends.ck_tile.catalogue import kernels

        return kernels(arch, revision, profile, tuple(Family) if families is None else families)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        from fmha_cli.backends.ck_tile.kernel_rules import refusals

        return refusals(kernel)

    def rules(self) -> tuple[Rule, ...]:
        from fmha_cli.backends.ck_tile.kernel_rules import KERNEL_RULES
        from fmha_cli.backends.ck_tile.problem_rules import PROBLEM_RULES

        return (*CORE_RULES, *KERNEL_RULES, *PROBLEM_RULES)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        from fmha_cli.backends.ck_tile.decide import decide

        return decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        from fmha_cli.backends.ck_tile.plan import plan_of

        return plan_of(problem, kernel, device)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        from fmha_cli.backends.ck_tile.upstream_names import upstream_name

        return upstream_name(kernel)

    def prepare(self, context: BuildContext) -> object:
        from fmha_cli.backends.ck_tile.building import workshop

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

    def build_recorder(self, context: BuildContext) -> Artifact:
        from fmha_cli.backends.ck_tile.standin.building import build_standin

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
