"""``TwoPasses``: both passes of a problem in one plan, from a backend's answers about single passes.

The backward pass reads the O and the LSE that the forward pass of the same plan has left on the device. Its kernel is the
candidate; the forward kernel is the best one of the same architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import DIRECTION_RULE, Reason

Decide = Callable[[Problem, DeviceFacts], Iterable[Decision]]
"""``Backend.decide`` for a problem of one direction."""
MakePlan = Callable[[Problem, KernelSpec, DeviceFacts], Plan]
"""``Backend.plan`` for a problem of one direction."""
Discord = Callable[[Problem, KernelSpec, KernelSpec], Sequence[Reason]]
"""(problem of both directions, forward kernel, backward kernel) -> why the second cannot read the first one's results.
"""


def accord(problem: Problem, forward: KernelSpec, backward: KernelSpec) -> Sequence[Reason]:
    """The answer of a backend whose backward kernels read the contract's O and LSE: it accepts every pair."""
    return ()


@dataclass(frozen=True)
class TwoPasses:
    """A backend's answers about problems of any direction.

    Attributes:
        single, plan_of: the backend's answers about a problem of one direction.
        discord: the backend's own limits of pairs of kernels.
    """

    single: Decide
    plan_of: MakePlan
    discord: Discord = accord

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        """The decision about every candidate. With both directions these are the backward kernels, and the reasons
        against each include those against the forward pass where no forward kernel goes with it."""
        if len(problem.passes()) == 1:
            return self.single(problem, device)
        return self._paired(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        """The plan around a supported main kernel.

        Raises:
            InternalError: no forward kernel goes with it. ``decide`` refuses such kernels.
        """
        if len(problem.passes()) == 1:
            return self.plan_of(problem, kernel, device)
        forward, backward = problem.passes()
        first = self._partner(problem, kernel, _Before.of(self.single(forward, device), kernel.arch))
        if not isinstance(first, Supported):
            raise InternalError(f"{kernel.name}: no forward kernel goes with it", where="plan")
        return joined(problem, self.plan_of(forward, first.kernel, device), self.plan_of(backward, kernel, device))

    def _paired(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        forward, backward = problem.passes()
        asked = tuple(self.single(forward, device))
        before = {arch: _Before.of(asked, arch) for arch in dict.fromkeys((*device.archs, *(d.arch for d in asked)))}
        for decision in self.single(backward, device):
            kernel = decision.kernel
            if kernel is None:
                yield decision
                continue
            first = self._partner(problem, kernel, before.get(kernel.arch, _Before()))
            own = decision.reasons if isinstance(decision, Unsupported) else ()
            if not isinstance(first, Supported):
                named = {reason.id for reason in own}
                reasons = (*own, *(reason for reason in first if reason.id not in named))
                yield Unsupported(decision.backend, decision.arch, kernel, reasons)
            elif isinstance(decision, Unsupported):
                yield decision
            else:
                name = f"{first.kernel.family.value} {first.kernel.digest[:8]}"
                yield replace(decision, note=f"{decision.note}; after {name}")

    def _partner(self, problem: Problem, kernel: KernelSpec, before: _Before) -> Supported | tuple[Reason, ...]:
        """The best forward kernel that goes with a backward kernel, or why there is none."""
        refused: tuple[Reason, ...] = ()
        for first in before.fitting:
            against = tuple(self.discord(problem, first.kernel, kernel))
            if not against:
                return first
            refused = refused or against
        if refused:
            return refused
        missing = Reason(
            DIRECTION_RULE.id, f"{kernel.backend} has no forward kernel for {kernel.arch}", "--direction bwd"
        )
        return tuple(replace(r, text=f"forward pass: {r.text}") for r in before.reasons) or (missing,)


@dataclass(frozen=True)
class _Before:
    """The forward kernels of one architecture: the ones that fit, best first, and the reasons of the nearest one that
    does not.
    """

    fitting: tuple[Supported, ...] = ()
    reasons: tuple[Reason, ...] = ()

    @staticmethod
    def of(decisions: Iterable[Decision], arch: str) -> _Before:
        here = [d for d in decisions if d.arch == arch]
        fitting = sorted((d for d in here if isinstance(d, Supported)), key=lambda d: d.rank)
        nearest = min((d for d in here if isinstance(d, Unsupported)), key=lambda d: d.distance, default=None)
        return _Before(tuple(fitting), () if nearest is None else nearest.reasons)


def joined(problem: Problem, forward: Plan, backward: Plan) -> Plan:
    """One plan of two passes. Workspaces of one name become one that is large enough for both passes: the backward pass
    reads what the forward pass left there.
    """
    spaces: dict[str, Workspace] = {}
    for space in (*forward.workspaces, *backward.workspaces):
        known = spaces.get(space.name, space)
        spaces[space.name] = Workspace(space.name, max(space.bytes, known.bytes), max(space.align, known.align))
    return Plan(problem, (*forward.stages, *backward.stages), tuple(spaces.values()), forward.splits)
