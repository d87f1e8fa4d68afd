"""``Condition``: a rule over a :class:`Situation`, and the plain ``Rule`` that it is to the rest of the tool."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from fmha_cli.backends.flash_attn.signatures import MAIN
from fmha_cli.backends.flash_attn.situation import Situation, situation_of
from fmha_cli.device import DeviceFacts
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import Reason, Rule

Check = Callable[[Situation, KernelSpec], Reason | None]
Reads = Callable[[KernelSpec], Hashable]
FORWARD = (Family.FWD, Family.FWD_SPLITKV)
BACKWARD = (Family.BWD_DQ_DK_DV,)
API = "csrc/flash_attn/flash_api.cpp"
SRC = "csrc/flash_attn/src"


def the_family(kernel: KernelSpec) -> Hashable:
    """What a condition reads that is the same for all kernels of a family and architecture."""
    return None


@dataclass(frozen=True)
class Condition:
    """What a kernel of ``families`` needs of a problem.

    ``check`` may read of the kernel its family, its architecture, and what ``reads`` gives: kernels with equal
    ``reads`` are judged once.
    """

    id: str
    text: str
    check: Check
    help: str
    source: str
    families: tuple[Family, ...] = MAIN
    reads: Reads = the_family

    def against(self, situation: Situation, kernel: KernelSpec) -> Reason | None:
        """The Reason against a kernel, None when it may serve."""
        return self.check(situation, kernel) if kernel.family in self.families else None

    def rule(self) -> Rule:
        """The condition as a rule of the one table."""

        def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
            return self.against(situation_of(problem, device), kernel)

        return Rule(self.id, self.text, check, self.help, self.source)


def conditions_for(family: Family, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Those that say something about a family."""
    return tuple(c for c in conditions if family in c.families)
