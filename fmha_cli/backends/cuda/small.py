"""``SmallUpstream``: an upstream with few kernels, each of which serves a problem in one launch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.few import Few
    from fmha_cli.backends.cuda.launch import Launch
    from fmha_cli.backends.cuda.scratch import Scratch
    from fmha_cli.backends.gpu.call import Call


class SmallUpstream(Upstream):
    """Its kernels and rules are those of a ``Few``. Its situation is the device.

    Attributes:
        few: the kernels, and what they need of a problem.
    """

    few: Few

    @abstractmethod
    def launch(self, kernel: KernelSpec, problem: Problem, device: DeviceFacts) -> Launch:
        """The launch that serves a problem."""

    @abstractmethod
    def scratch(self, kernel: KernelSpec, problem: Problem) -> Mapping[str, Scratch]:
        """The scratch tensors of a launch by name."""

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return self.few.of(arch)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        return self.few.kernel_rules.refusals(kernel)

    def template(self, kernel: KernelSpec) -> str:
        """The kernel's name in its cubin."""
        return self.expected(kernel).symbol

    def rules(self) -> tuple[Rule, ...]:
        return (*self.few.problem_rules, *self.few.kernel_rules.rules())

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self.few.decisions(problem, device)

    def situation_of(self, problem: Problem, device: DeviceFacts) -> DeviceFacts:
        return device

    def plan_of(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        from fmha_cli.backends.cuda.scratch import workspaces

        launch = self.launch(kernel, problem, device)
        detail = (
            ("grid", " x ".join(map(str, launch.grid))),
            ("block", f"{launch.block[0]} threads, {launch.shared} bytes of shared memory"),
            ("template", self.template(kernel)),
        )
        return Plan(problem, (Stage(kernel, detail),), workspaces(self.scratch(kernel, problem)))

    def launch_of(self, stage: Stage, call: Call[DeviceFacts]) -> Launch:
        return self.launch(stage.kernel, call.problem, call.situation)
