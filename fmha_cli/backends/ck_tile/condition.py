"""``Condition``: a rule over a :class:`Situation`, and the plain ``Rule`` that it is to the rest of the tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fmha_cli.backends.ck_tile.situation import Situation, situation_of
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.device import DeviceFacts
from fmha_cli.errors import InternalError
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import Reason, Rule

Check = Callable[[Situation, KernelSpec], Reason | None]

ONE_KERNEL = (Family.FWD, Family.FWD_PAGEDKV, Family.BATCH_PREFILL)
FORWARD = (*ONE_KERNEL, Family.FWD_SPLITKV)
BACKWARD = (Family.BWD_DQ_DK_DV,)
MAIN = (*FORWARD, *BACKWARD)
"""Families whose kernels are candidates; the others are stages around them."""


@dataclass(frozen=True)
class Condition:
    """What a kernel of ``families`` needs of a problem.

    ``check`` may read of the kernel: family, arch, algorithm, and the signature fields of ``candidates.CLASS_FIELDS``.
    """

    id: str
    text: str
    check: Check
    families: tuple[Family, ...]
    help: str
    source: str

    def against(self, situation: Situation, kernel: KernelSpec) -> Reason | None:
        """The Reason against a kernel, None when it may serve."""
        return self.check(situation, kernel) if kernel.family in self.families else None

    def rule(self) -> Rule:
        """The condition as a rule of the one table."""

        def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
            return self.against(situation_of(problem, device), kernel)

        return Rule(self.id, self.text, check, self.help, self.source)


def algorithm_of(kernel: KernelSpec) -> CkAlgorithm:
    """The algorithm of a CK kernel.

    Raises:
        InternalError: another backend's kernel.
    """
    if not isinstance(kernel.algorithm, CkAlgorithm):
        raise InternalError(f"{kernel.name} is no CK-Tile kernel")
    return kernel.algorithm


def conditions_for(family: Family, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Those that say something about a family."""
    return tuple(c for c in conditions if family in c.families)


def next_multiple(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``value``."""
    return -(-value // step) * step
