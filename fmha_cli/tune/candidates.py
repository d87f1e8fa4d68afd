"""The kernels that compete for one problem: the ones that its backend supports, and the ones that it has for tuning only. The most promising
are built first, until there is no time for more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fmha_cli.bench.roofline import CacheState
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Choice, select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.rules import Reason, Severity
from fmha_cli.domain.tuning import Varied
from fmha_cli.run.builds import KernelOutcome, build_orders
from fmha_cli.run.rows import Row


@dataclass(frozen=True)
class Candidates:
    """Who competes.

    Attributes:
        choices: the default first, then in the order in which they are expected to be fast: by their backend's ranks, and
            kernels for tuning after the others.
        refused: kernels for tuning that do not serve the problem or cannot be built, and the backend's other kernels of the
            problem's kind that do not serve it, with all reasons.
        reasons: why there is no default; empty if there is one.
        tuning_only: digests of the kernels that no list has.
    """

    problem: Problem
    choices: tuple[Choice, ...]
    refused: tuple[Unsupported, ...] = ()
    reasons: tuple[Reason, ...] = ()
    tuning_only: frozenset[str] = frozenset()

    @property
    def default(self) -> Choice | None:
        """The choice without tuning."""
        return self.choices[0] if self.choices else None

    def rows(self, registry: Registry, cache: CacheState, group: int) -> tuple[Row, ...]:
        """One row for each candidate."""
        return tuple(
            Row(
                group=group,
                problem=self.problem,
                choice=choice,
                plan=registry.backend(choice.kernel.backend).plan(self.problem, choice.kernel, choice.device),
                cache=cache,
                default=place == 0,
            )
            for place, choice in enumerate(self.choices)
        )


def candidates_of(
    problem: Problem, registry: Registry, found: Mapping[str, Availability], wanted: Wanted
) -> Candidates:
    """The candidates of a problem, all of the backend and device that are chosen by default.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: as ``select``.
    """
    selection = select(problem, registry, found, wanted)
    best = selection.best
    if best is None:
        return Candidates(problem, (), selection.trace.unsupported, selection.trace.reasons())
    backend = registry.backend(best.kernel.backend)
    own = selection.of(backend.name)
    choices = {choice.kernel.digest: choice for choice in reversed(own.choices) if choice.device.id == best.device.id}
    ordered = sorted(choices.values(), key=lambda choice: (choice is not best, own.choices.index(choice)))
    near = (one for one in own.trace.unsupported if all(reason.severity < Severity.KIND for reason in one.reasons))
    refused, only = list[Unsupported](near), list[Decision]()
    if isinstance(backend, Varied):
        device = best.device if wanted.arch is None else replace(best.device, archs=(wanted.arch,))
        only = list(backend.decide_variants(problem, device))
        fit = sorted((one for one in only if isinstance(one, Supported)), key=lambda one: one.rank)
        ordered += [Choice(decision, best.device) for decision in fit if decision.kernel.digest not in choices]
        refused += [one for one in only if isinstance(one, Unsupported)]
    digests = frozenset(decision.kernel.digest for decision in only if decision.kernel is not None)
    return Candidates(problem, tuple(ordered), tuple(refused), tuning_only=digests)


UNBUILT = "X070"


def unbuilt(budget_s: float) -> Reason:
    """Why a candidate was not built."""
    return Reason(
        UNBUILT, f"not built: {budget_s:g} s of --build-budget were used up", "--build-budget S", Severity.CHOICE
    )


def build_within(
    rows: Sequence[Row],
    registry: Registry,
    context: BuildContext,
    budget_s: float | None,
) -> Mapping[str, KernelOutcome]:
    """The outcomes of the candidates' builds, by ``Order.key``. A build that began is finished.

    Args:
        budget_s: seconds after which no further build begins; None = no limit. The first rows are built in any case: the
            default is among them.

    Raises:
        KeyboardInterrupt: the user interrupted; finished kernels are in the cache.
    """
    built: dict[str, KernelOutcome] = {}
    batch = len(rows) if budget_s is None else context.jobs
    started = time.monotonic()
    for at in range(0, len(rows), max(1, batch)):
        if at and budget_s is not None and time.monotonic() - started >= budget_s:
            break
        orders = [order for row in rows[at : at + batch] for order in row.orders if order.key not in built]
        built.update(build_orders(orders, registry, context))
    return built
