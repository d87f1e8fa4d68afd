"""``Row``: one requested row. Rows are planned before anything runs, so none can go missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Choice, Selection, Wanted, select
from fmha_cli.domain.device import Availability
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import UnsupportedError, UsageError
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.measure.roofline import CacheState
from fmha_cli.walk.request import Command, Request
from fmha_cli.walk.sides import Order, Side, home_option


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: a problem, the kernel chosen for it, and the cache mode.

    Attributes:
        group: number of the point; rows of one group share inputs and reference.
        choice: the kernel and its device; None if the problem is unsupported, with ``reasons``.
        default: whether ``auto`` would have chosen this kernel.
        side: place among the kernels of ``--ab``, 0 or 1; None without ``--ab``.
        fallback: the first reason of the nearest miss that was refused.
        home: the tree of sources from which the kernels of this side of ``--ab`` are built (``K@DIR``); None for the one
            that the options choose.
    """

    group: int
    problem: Problem
    choice: Choice | None
    plan: Plan | None
    reasons: tuple[Reason, ...] = ()
    cache: CacheState = CacheState.HOT
    default: bool = True
    side: int | None = None
    fallback: str | None = None
    home: str | None = None

    @property
    def orders(self) -> tuple[Order, ...]:
        """What has to be built for the row, in the order of its stages."""
        return () if self.plan is None else tuple(Order(stage, self.home) for stage in self.plan.stages)

    @property
    def name(self) -> str:
        """The name of the main kernel, with the row's own tree of sources."""
        assert self.plan is not None
        return self.plan.main.name if self.home is None else f"{self.plan.main.name}@{self.home}"

    @property
    def short(self) -> str:
        """As ``name``, with the beginning of the digest in place of the canonical name: ``--ab`` takes it."""
        assert self.plan is not None
        return self.plan.main.digest[:8] if self.home is None else f"{self.plan.main.digest[:8]}@{self.home}"

    @property
    def key(self) -> str:
        """The row's identity within a run, by which the journal resumes. What all rows of the run share is in the
        journal's first line (``invocation``)."""
        kernel = self.choice.kernel.name if self.choice else None
        device = self.choice.device.id if self.choice else None
        return digest_of([self.group, self.problem.to_dict(), kernel, device, self.cache.value, self.side])[:24]

    @property
    def what(self) -> str:
        """The row's problem, kernel, device and cache mode, for people."""
        if self.choice is None:
            return f"`{self.problem.repro()}` without a kernel"
        kernel, device = self.choice.kernel, self.choice.device.id
        return f"`{self.problem.repro()}` by {kernel.backend} {self.short} on {device}, {self.cache.value}"

    @property
    def pair(self) -> bool:
        """Whether this is one of the two rows of ``--ab``."""
        return self.side is not None

    def starts_pair(self, other: Row) -> bool:
        """Whether the next row is the other one of ``--ab``, so that both are timed in turns."""
        return (self.side, other.side) == (0, 1) and (self.group, self.cache) == (other.group, other.cache)


def plan_rows(
    points: Sequence[Problem], request: Request, registry: Registry, found: Mapping[str, Availability]
) -> list[Row]:
    """Every row of a run, in the order in which they will be shown.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: see ``select``.
    """
    planner = _Planner(request, registry, found, _caches(request))
    return [row for group, point in enumerate(points) for row in planner.rows_of(group, point)]


def _caches(request: Request) -> tuple[CacheState, ...]:
    if request.command is not Command.BENCH:
        return (CacheState.HOT,)
    both = (CacheState.HOT, CacheState.COLD)
    if request.cache == "both":
        return both
    if request.cache not in [c.value for c in both]:
        raise UsageError(f"--cache {request.cache}", code="E008", where="--cache", help="hot, cold or both")
    return (CacheState(request.cache),)


@dataclass(frozen=True)
class _Planner:
    """The request and the environment on which the rows of all points depend."""

    request: Request
    registry: Registry
    found: Mapping[str, Availability]
    caches: tuple[CacheState, ...]

    def rows_of(self, group: int, problem: Problem) -> Iterator[Row]:
        """The rows of one point."""
        request = self.request
        if request.ab is not None:
            sides = [self._side(group, problem, Side.parse(text, "--ab"), side) for side, text in enumerate(request.ab)]
            for both in zip_longest(*sides):
                yield from (row for row in both if row is not None)
            return
        yield from self._expanded(group, problem, self._selected(problem, request.wanted))
        if request.command is Command.VALIDATE and not problem.lse and problem.direction.forward:
            yield from self._lse_sibling(group, replace(problem, lse=True))

    def _selected(self, problem: Problem, wanted: Wanted) -> Selection:
        return select(problem, self.registry, self.found, wanted)

    def _side(self, group: int, problem: Problem, named: Side, side: int) -> Iterator[Row]:
        """The rows of one side of ``--ab``."""
        selection = self._selected(problem, replace(self.request.wanted, kernel=named.kernel))
        if selection.best is not None and named.home is not None:
            home_option(self.registry, selection.best.kernel.backend, named.home, "--ab")
        for row in self._expanded(group, problem, selection, side):
            yield replace(row, home=named.home)

    def _expanded(self, group: int, problem: Problem, selection: Selection, side: int | None = None) -> Iterator[Row]:
        if selection.best is None:
            reasons = selection.trace.reasons()
            yield Row(group=group, problem=problem, choice=None, plan=None, reasons=reasons, side=side)
            return
        every = self.request.all_kernels and side is None
        for choice in _distinct(selection.choices) if every else [selection.best]:
            backend = self.registry.backend(choice.kernel.backend)
            plan = backend.plan(problem, choice.kernel, choice.device)
            for cache in self.caches:
                yield Row(
                    group=group,
                    problem=problem,
                    choice=choice,
                    plan=plan,
                    cache=cache,
                    default=choice is selection.best,
                    side=side,
                    fallback=next((r.text for r in selection.trace.reasons()), None),
                )

    def _lse_sibling(self, group: int, sibling: Problem) -> Iterator[Row]:
        """The same problem with LSE returned: a kernel is never replaced for judging, so it gets a separate row."""
        try:
            selection = self._selected(sibling, self.request.wanted)
        except UnsupportedError:  # the kernel of --kernel returns no LSE, so there is no second row
            return
        if selection.best is not None:
            yield from self._expanded(group, sibling, selection)


def _distinct(choices: Sequence[Choice]) -> list[Choice]:
    """Each kernel once, on its best device."""
    seen: dict[str, Choice] = {}
    for choice in choices:
        seen.setdefault(choice.kernel.digest, choice)
    return list(seen.values())
