"""The null backend: a device that every machine has, kernels that need no compiler, and every way to fail.

The whole command line is tested on it. It computes honest attention in numpy, and has one kernel for each
``Behaviour``, so that every verdict can be produced through the real path: ``fmha validate --backend null
--all-kernels``. It is never chosen by ``auto``, and only the honest kernels come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fmha_cli.arch import ArchSpec
from fmha_cli.backends.null_kernels import (
    ARCH,
    NullAlgorithm,
    behaviour_of,
    combine_kernels,
    main_kernels,
    null_kernel,
    rank_of,
)
from fmha_cli.decision import Decision, Supported, Unsupported
from fmha_cli.device import Availability, DeviceFacts, State
from fmha_cli.hookspecs import hookimpl
from fmha_cli.kernel import Algorithm, Family, KernelSpec
from fmha_cli.plan import Artifact, Plan, Stage, Workspace
from fmha_cli.problem import Problem
from fmha_cli.protocols import Backend, BuildContext, Session
from fmha_cli.rules import CORE_RULES, Rule, reasons_against

DEFAULT_SPLITS = 2


class NullBackend:
    """See ``fmha_cli.protocols.Backend`` for the contract of the methods."""

    name = "null"
    algorithm: type[Algorithm] = NullAlgorithm
    dropout_stream = "fmha"
    probes_in_parent = True
    automatic = False
    runtime = "null"

    def probe(self) -> Availability:
        device = DeviceFacts(id="null", archs=(ARCH,), name="numpy")
        return Availability(state=State.OK, devices=(device,), version="1")

    def archs(self) -> tuple[str, ...]:
        return (ARCH,)

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        if arch.name == ARCH:
            yield from main_kernels()
            yield from combine_kernels()

    def rules(self) -> tuple[Rule, ...]:
        return CORE_RULES

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        for kernel in main_kernels():
            reasons = reasons_against(self.rules(), problem, kernel, device)
            if reasons:
                yield Unsupported(self.name, kernel.arch, kernel, tuple(reasons))
            else:
                yield Supported(kernel, rank_of(kernel), behaviour_of(kernel).value)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        if kernel.family is not Family.FWD_SPLITKV:
            return Plan(problem, (Stage(kernel),))
        splits = problem.splits or DEFAULT_SPLITS
        rows = problem.heads * sum(problem.query_lengths())
        combine = null_kernel(kernel.signature.dtype, Family.FWD_SPLITKV_COMBINE)
        stages = (Stage(kernel, (("splits", str(splits)),)), Stage(combine))
        spaces = (
            Workspace("o_acc", splits * rows * problem.hdim_v * 4),
            Workspace("lse_acc", splits * rows * 4),
        )
        return Plan(problem, stages, spaces, splits)

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.backends.null_build import build_null  # listing kernels needs no cache

        return build_null(stage.kernel, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        from fmha_cli.backends.null_build import null_key

        return null_key(stage.kernel)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        return {"instructions": {}, "matrix_instructions": 0, "registers": None, "spills": None}

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return None

    def open(self, device: DeviceFacts) -> Session:
        from fmha_cli.backends.null_session import NullSession  # numpy is for the worker alone

        return NullSession()


backend: Backend = NullBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
