"""The FlashAttention backend: FlashAttention-2 for NVIDIA GPUs, compiled by NVRTC kernel by kernel when needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fmha_cli.arch import ArchSpec, arch_names, load_arch
from fmha_cli.backends.cuda.presence import may_be_driven, undriven
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.decision import Decision
from fmha_cli.device import Availability, DeviceFacts
from fmha_cli.kernel import Algorithm, KernelSpec
from fmha_cli.plan import Artifact, Plan, Stage
from fmha_cli.problem import Problem
from fmha_cli.protocols import BoundTensor, BuildContext, LaunchView, Session
from fmha_cli.rules import Reason, Rule

# Whatever a method needs is imported in it: listing kernels needs no rules of problems, choosing no compiler, and
# nothing but running needs cuda-python.


class FlashAttentionBackend:
    """See ``fmha_cli.protocols`` (Backend, Refusing, Batched, DryRun, Keyed) for the contract of the methods.

    Args:
        driven: whether an NVIDIA driver may be here; by default as the machine shows.
    """

    name = NAME
    algorithm: type[Algorithm] = FaAlgorithm
    dropout_stream = "fa2"
    automatic = True

    def __init__(self, driven: bool | None = None) -> None:
        self._driven = may_be_driven() if driven is None else driven
        self.probes_in_parent = not self._driven  # without a driver there is nothing to open

    def probe(self) -> Availability:
        if not self._driven:
            return undriven()
        from fmha_cli.backends.cuda.probe import probe_cuda

        return probe_cuda()

    def archs(self) -> tuple[str, ...]:
        return tuple(name for name in arch_names() if NAME in load_arch(name).backends)

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        from fmha_cli.backends.flash_attn.catalogue import kernels

        return kernels(arch)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        from fmha_cli.backends.flash_attn.kernel_rules import refusals

        return refusals(kernel)

    def rules(self) -> tuple[Rule, ...]:
        from fmha_cli.backends.flash_attn.kernel_rules import KERNEL_RULES
        from fmha_cli.backends.flash_attn.problem_rules import RULES

        return (*RULES, *KERNEL_RULES)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        from fmha_cli.backends.flash_attn.decide import decide

        return decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        from fmha_cli.backends.flash_attn.plan import plan_of

        return plan_of(problem, kernel, device)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        from fmha_cli.backends.flash_attn.upstream_names import upstream_name

        return upstream_name(kernel)

    def prepare(self, context: BuildContext) -> object:
        from fmha_cli.backends.flash_attn.building import workshop

        return workshop(context)

    def compile_bytes(self, kernel: KernelSpec) -> int:
        from fmha_cli.backends.flash_attn.building import compile_bytes

        return compile_bytes(kernel)

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.backends.flash_attn.building import build_fa

        return build_fa(stage.kernel, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        from fmha_cli.backends.flash_attn.building import fa_key

        return fa_key(stage.kernel, context)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        from fmha_cli.backends.flash_attn.inspection import inspect_fa

        return inspect_fa(kernel, artifact)

    def open(self, device: DeviceFacts) -> Session:
        from fmha_cli.backends.flash_attn.session import FaSession

        return FaSession(device)

    def build_recorder(self, context: BuildContext) -> Artifact | None:
        return None  # the host code is Python: what it would launch is known without a driver

    def describe_launches(
        self,
        plan: Plan,
        artifacts: Sequence[Path],
        tensors: Mapping[str, BoundTensor],
        device: DeviceFacts,
        recorder: Path | None,
    ) -> tuple[LaunchView, ...]:
        from fmha_cli.backends.flash_attn.dry_run import describe_launches

        return describe_launches(plan, artifacts, tensors, device)
