"""AITER's assembly kernels behind the interface of the layer that GPU backends share."""

from __future__ import annotations

from collections.abc import Iterable

from fmha_cli.backends.hip.upstream import CodeObjectUpstream
from fmha_cli.codegen.aiter_asm.facts import NAME, AiterAlgorithm, facts_of, kernels
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.own import own
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule


class AiterAsm(CodeObjectUpstream):
    """``hsa`` of amd-aiter 0.1.7.post2.dev18."""

    name, algorithm, dropout_stream = NAME, AiterAlgorithm, "ck"  # without dropout
    source = "aiter-asm"

    _few = own(".rules", "FEW", called=False)
    plan_of = own(".launching")
    params_of = own(".launching")
    launch_of = own(".launching")
    auxiliaries_of = own(".conversions")
    launches = own(".launching")
    after_download = own(".conversions")

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return kernels(arch.name)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        reasons: tuple[Reason, ...] = self._few.kernel_rules.refusals(kernel)
        return reasons

    def rules(self) -> tuple[Rule, ...]:
        return (*self._few.problem_rules, *self._few.kernel_rules.rules())

    def situation_of(self, problem: Problem, device: DeviceFacts) -> object:
        return self._few.situation_of(problem, device)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        decisions: Iterable[Decision] = self._few.decisions(problem, device)
        return decisions

    def path(self, kernel: KernelSpec) -> str:
        return facts_of(kernel).path

    def symbol(self, kernel: KernelSpec) -> str:
        return facts_of(kernel).symbol

    def upstream_name(self, kernel: KernelSpec) -> str:
        """The file below ``fmha_v3_fwd``, without its ending."""
        return self.path(kernel).partition("/fmha_v3_fwd/")[2].removesuffix(".co")


UPSTREAM = AiterAsm()
