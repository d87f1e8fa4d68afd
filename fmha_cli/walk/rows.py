"""``Row``: one row that was asked for. Rows are planned before anything runs, so none can go missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: a problem, the kernel chosen for it, and the cache mode.

    Attributes:
        group: number of the point; rows of one group share inputs and reference.
        choice: the kernel and its device; None if the problem is unsupported, with ``reasons``.
        default: whether ``auto`` would have chosen this kernel.
        pair: whether this is one of the two rows of ``--ab``.
        fallback: the first reason of the nearest miss that was refused.
    """

    group: int
    problem: Problem
    choice: Choice | None
    plan: Plan | None
    reasons: tuple[Reason, ...] = ()
    cache: CacheState = CacheState.HOT
    default: bool = True
    pair: bool = False
    fallback: str | None = None

    @property
    def key(self) -> str:
        """The row's identity within a run, by which the journal resumes."""
        kernel = self.choice.kernel.name if self.choice else None
        device = self.choice.device.id if self.choice else None
        return digest_of([self.group, self.problem.to_dict(), kernel, device, self.cache.value])[:24]


def plan_rows(
    points: Sequence[Problem], request: Request, registry: Registry, found: Mapping[str, Availability]
) -> list[Row]:
    """Every row of a run, in the order in which they will be shown.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: see ``select``.
    """
    rows: list[Row] = []
    for group, point in enumerate(points):
        rows.extend(_rows_of(group, point, request, registry, found))
    return rows


def _rows_of(
    group: int, problem: Problem, request: Request, registry: Registry, found: Mapping[str, Availability]
) -> Iterator[Row]:
    caches = _caches(request)
    if request.ab is not None:
        for name in request.ab:
            selection = select(problem, registry, found, replace(request.wanted, kernel=name))
            yield from _expanded(group, problem, selection, registry, caches, every=False, pair=True)
        return
    selection = select(problem, registry, found, request.wanted)
    yield from _expanded(group, problem, selection, registry, caches, every=request.all_kernels)
    if request.command is Command.VALIDATE and not problem.lse and problem.direction.forward:
        yield from _lse_sibling(group, problem, request, registry, found)


def _caches(request: Request) -> tuple[CacheState, ...]:
    if request.command is not Command.BENCH:
        return (CacheState.HOT,)
    both = (CacheState.HOT, CacheState.COLD)
    if request.cache == "both":
        return both
    if request.cache not in [c.value for c in both]:
        raise UsageError(f"--cache {request.cache}", code="E008", where="--cache", help="hot, cold or both")
    return (CacheState(request.cache),)


def _expanded(
    group: int,
    problem: Problem,
    selection: Selection,
    registry: Registry,
    caches: Iterable[CacheState],
    *,
    every: bool,
    pair: bool = False,
) -> Iterator[Row]:
    if selection.best is None:
        yield Row(group=group, problem=problem, choice=None, plan=None, reasons=selection.trace.reasons())
        return
    for choice in _distinct(selection.choices) if every else [selection.best]:
        backend = registry.backend(choice.kernel.backend)
        plan = backend.plan(problem, choice.kernel, choice.device)
        for cache in caches:
            yield Row(
                group=group,
                problem=problem,
                choice=choice,
                plan=plan,
                cache=cache,
                default=choice is selection.best,
                pair=pair,
                fallback=next((r.text for r in selection.trace.reasons()), None),
            )


def _distinct(choices: Sequence[Choice]) -> list[Choice]:
    """Each kernel once, on its best device."""
    seen: dict[str, Choice] = {}
    for choice in choices:
        seen.setdefault(choice.kernel.digest, choice)
    return list(seen.values())


def _lse_sibling(
    group: int, problem: Problem, request: Request, registry: Registry, found: Mapping[str, Availability]
) -> Iterator[Row]:
    """The same problem with LSE returned: a kernel is never swapped for judging, so it is a row of its own."""
    sibling = replace(problem, lse=True)
    wanted: Wanted = request.wanted
    try:
        selection = select(sibling, registry, found, wanted)
    except UnsupportedError:  # the kernel that --kernel names returns no LSE: there is no sibling to judge
        return
    if selection.best is not None:
        yield from _expanded(group, sibling, selection, registry, _caches(request), every=request.all_kernels)
