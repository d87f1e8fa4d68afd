"""``SmallUpstream``: an upstream with few kernels, each of which serves a problem in one launch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.gpu.launching import Launch, launch_detail
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.scratch import Scratch
    from fmha_cli.backends.gpu.call import Call
    from fmha_cli.backends.gpu.few import Few


class SmallUpstream(CubinUpstream):
    """Its kernels and rules are those of a ``Few``.

    Attributes:
        few: the kernels, what they need of a problem, and the situation of a problem on a device.
    """

    few: Few[Any]

    @abstractmethod
    def launch(self, kernel: KernelSpec, situation: Any) -> Launch:
        """The launch that serves a problem."""

    @abstractmethod
    def scratch(self, kernel: KernelSpec, situation: Any) -> Mapping[str, Scratch]:
        """The scratch tensors of a launch by name."""

    def details(self, kernel: KernelSpec, situation: Any) -> Iterable[tuple[str, str]]:
        """What a plan says about a launch, apart from its shape."""
        return ()

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return self.few.of(arch)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        return self.few.kernel_rules.refusals(kernel)

    def template(self, kernel: KernelSpec) -> str:
        """The kernel's name in its cubin."""
        return self.expect_exports(kernel).symbol

    def upstream_name(self, kernel: KernelSpec) -> str:
        """The same name: profilers show it, and no two kernels of an architecture share it."""
        return self.template(kernel)

    def rules(self) -> tuple[Rule, ...]:
        return (*self.few.problem_rules, *self.few.kernel_rules.rules())

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self.few.decisions(problem, device)

    def situation_of(self, problem: Problem, device: DeviceFacts) -> Any:
        return self.few.situation_of(problem, device)

    def plan_of(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        from fmha_cli.backends.cuda.scratch import workspaces

        situation = self.situation_of(problem, device)
        launched, launch = self.launches(situation), self.launch(kernel, situation)
        shape = launch_detail(launch.grid, prod(launch.block), launch.shared, self.template(kernel), launched=launched)
        made = self.scratch(kernel, situation) if launched else {}
        return Plan(problem, (Stage(kernel, (*shape, *self.details(kernel, situation))),), workspaces(made))

    def launch_of(self, stage: Stage, call: Call[Any]) -> Launch:
        return self.launch(stage.kernel, call.situation)
