"""``Row``: one requested row. Rows are planned before anything runs, so none can go missing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from fmha_cli.bench.roofline import CacheState
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Choice, Selection, select
from fmha_cli.discovery.wanted import Contenders, Wanted, contenders
from fmha_cli.domain.device import Availability
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import UnsupportedError, UsageError
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.request import Command, NamedKernel, Order, Request, home_option

if TYPE_CHECKING:
    from fmha_cli.run.tuned_choice import TunedChooser


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: a problem, the kernel chosen for it, and the cache mode.

    Attributes:
        group: number of the point; rows of one group share inputs and reference.
        choice: the kernel and its device; None if the problem is unsupported, with ``reasons``.
        default: whether ``auto`` would have chosen this kernel.
        asked: the backend that the row is about, where several are compared.
        absent: whether nothing was chosen because that backend has no device here.
        turn: place among the rows that are interleaved: the sides of ``--ab``, or the backends that ``bench`` compares;
            None for a row that is not compared.
        fallback: the first reason of the nearest miss that was refused.
        home: the tree of sources from which the kernels of this side of ``--ab`` are built (``K@DIR``); None for the one
            that the options choose.
        layer: the layers of ``--model`` for which the problem stands; None without a model.
        tuned: whether the kernel was tuned for the problem, and ``auto`` would have chosen another one without that.
    """

    group: int
    problem: Problem
    choice: Choice | None
    plan: Plan | None
    reasons: tuple[Reason, ...] = ()
    cache: CacheState = CacheState.HOT
    default: bool = True
    asked: str | None = None
    absent: bool = False
    turn: int | None = None
    fallback: str | None = None
    home: str | None = None
    layer: Layer | None = None
    tuned: bool = False

    @property
    def orders(self) -> tuple[Order, ...]:
        """The builds of the row, in the order of its stages."""
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
        """The row's identity within a run; the journal resumes by it. The common part of all rows of the run is in the
        journal's first line (``invocation``).
        """
        kernel = self.choice.kernel.name if self.choice else None
        device = self.choice.device.id if self.choice else None
        place: list[Any] = [self.turn, self.asked]
        if self.layer is not None:
            place += [self.layer.model, self.layer.kind.value, self.layer.phase.value, self.layer.weight]
        return digest_of([self.group, self.problem.to_dict(), kernel, device, self.cache.value, *place])[:24]

    @property
    def unserved(self) -> Verdict:
        """The verdict of a row without a kernel."""
        return Verdict.NOT_RUN if self.absent else Verdict.UNSUPPORTED

    @property
    def what(self) -> str:
        """The row's problem, kernel, device and cache mode, for people."""
        if self.choice is None:
            return f"`{self.problem.repro()}` without a kernel" + (f" of {self.asked}" if self.asked else "")
        kernel, device = self.choice.kernel, self.choice.device.id
        return f"`{self.problem.repro()}` by {kernel.backend} {self.short} on {device}, {self.cache.value}"

    @property
    def turns(self) -> tuple[int, CacheState, str | None] | None:
        """What interleaved rows have in common; None for a row that is timed alone. Backends on several devices
        share too little to take turns."""
        if self.turn is None:
            return None
        return self.group, self.cache, None if self.asked is None or self.choice is None else self.choice.device.id

    def compares(self, other: Row) -> bool:
        """Whether another row is about the same problem and cache mode, which makes their times comparable."""
        return None not in (self.turn, other.turn) and (self.group, self.cache) == (other.group, other.cache)


def plan_rows(
    points: Sequence[Problem],
    request: Request,
    registry: Registry,
    found: Mapping[str, Availability],
    voice: Voice = SILENT,
    layers: Sequence[Layer | None] = (),
    chooser: TunedChooser | None = None,
) -> list[Row]:
    """Every row of a run, in the order in which they will be shown.

    Args:
        layers: the layers of a model for which each point stands; empty without a model.
        voice: hears a line that names the backends that ``--backend all`` compares, and the ones that it leaves out.
        chooser: knows the tuned kernels; None without any.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: see ``select``; E002, ``--kernel`` with several backends.
    """
    compared = _compared(request, registry, found) if request.wanted.several and request.ab is None else None
    if compared is not None and compared.text is not None:
        voice.say(compared.text)
    planner = _Planner(request, registry, found, _caches(request), compared, chooser)
    return [
        replace(row, layer=layer)
        for group, (point, layer) in enumerate(zip_longest(points, layers))
        for row in planner.rows_of(group, point)
    ]


KNOWN_ROWS = 64
"""Problems whose row is remembered."""


class KnownRows:
    """The rows of problems that come again. One is planned anew when the request, the registry, or what a probe has found is another."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Problem, Wanted], tuple[object, list[Row]]] = OrderedDict()

    def plan(
        self, problem: Problem, request: Request, registry: Registry, found: Mapping[str, Availability]
    ) -> list[Row]:
        """As ``plan_rows`` for one problem. Errors are not remembered.

        Raises:
            UsageError, EnvironmentProblem, UnsupportedError: as ``plan_rows``.
        """
        key, depends = (problem, request.wanted), (request, registry, dict(found))
        known = self._kept.pop(key, None)
        rows = (
            known[1] if known is not None and known[0] == depends else plan_rows((problem,), request, registry, found)
        )
        self._kept[key] = (depends, rows)
        while len(self._kept) > KNOWN_ROWS:
            self._kept.popitem(last=False)
        return rows


def _compared(request: Request, registry: Registry, found: Mapping[str, Availability]) -> Contenders:
    if request.kernel is not None:
        what = f"--kernel names one kernel, --backend {request.backend} several backends"
        raise UsageError(what, code="E002", where="--kernel", help="bench --ab K1 K2 compares two kernels")
    return contenders(registry, found, request.wanted)


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
    compared: Contenders | None
    chooser: TunedChooser | None

    def rows_of(self, group: int, problem: Problem) -> Iterator[Row]:
        """The rows of one point."""
        request = self.request
        if request.ab is not None:
            yield from _interleaved(
                self._side(group, problem, NamedKernel.parse(text, "--ab"), side)
                for side, text in enumerate(request.ab)
            )
            return
        if self.compared is not None:
            yield from self._backends(group, problem, self.compared)
            return
        yield from self._expanded(group, problem, self._selected(problem, request.wanted))
        if request.command is Command.VALIDATE and _lacks_lse(problem):
            yield from self._lse_sibling(group, replace(problem, lse=True))

    def _selected(self, problem: Problem, wanted: Wanted) -> Selection:
        return select(problem, self.registry, self.found, wanted)

    def _side(self, group: int, problem: Problem, named: NamedKernel, side: int) -> Iterator[Row]:
        """The rows of one side of ``--ab``."""
        selection = self._selected(problem, replace(self.request.wanted, kernel=named.kernel))
        if selection.best is not None and named.home is not None:
            home_option(self.registry, selection.best.kernel.backend, named.home, "--ab")
        for row in self._expanded(group, problem, selection, side):
            yield replace(row, home=named.home)

    def _backends(self, group: int, problem: Problem, compared: Contenders) -> Iterator[Row]:
        """The rows of each backend that is compared; ``validate`` adds those of the problem with LSE."""
        wanted = replace(self.request.wanted, backend=",".join(compared.names), device=compared.device)
        problems = [problem]
        if self.request.command is Command.VALIDATE and _lacks_lse(problem):
            problems.append(replace(problem, lse=True))
        for one in problems:
            whole = self._selected(one, wanted)
            yield from _interleaved(
                self._backend(group, one, whole, name, turn)
                for turn, name in enumerate(compared.names)
                if one is problem or whole.of(name).best is not None
            )

    def _backend(self, group: int, problem: Problem, whole: Selection, name: str, turn: int) -> Iterator[Row]:
        """The rows of one backend, or the row that says why it has none."""
        own, request = whole.of(name), self.request
        away = request.device is None and request.arch is None and not self.found[name].devices
        takes_turns = request.command is Command.BENCH and not request.all_kernels
        for row in self._expanded(group, problem, own):
            runs = takes_turns and row.choice is not None and row.choice.runnable
            default = row.default and own.best is whole.best
            yield replace(row, asked=name, turn=turn if runs else None, default=default, absent=away, fallback=None)

    def _expanded(self, group: int, problem: Problem, selection: Selection, side: int | None = None) -> Iterator[Row]:
        if selection.best is None:
            reasons = selection.trace.reasons()
            yield Row(group=group, problem=problem, choice=None, plan=None, reasons=reasons, turn=side)
            return
        every = self.request.all_kernels and side is None
        for choice in _distinct(selection.choices) if every else [selection.best]:
            for cache in self.caches:
                asked = None if every or side is not None or self.chooser is None else self.chooser
                advice = None if asked is None else asked.advice(problem, selection, cache)
                tuned = None if advice is None else advice.choice  # another kernel than the default
                used = tuned or choice
                backend = self.registry.backend(used.kernel.backend)
                yield Row(
                    group=group,
                    problem=problem,
                    choice=used,
                    plan=backend.plan(problem, used.kernel, used.device),
                    reasons=used.decision.despite,
                    cache=cache,
                    default=used is selection.best,
                    tuned=tuned is not None,
                    turn=side,
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


def _lacks_lse(problem: Problem) -> bool:
    """Whether kernels return no LSE for the problem, although they could. With a backward pass it is always there."""
    return not problem.lse and not problem.direction.backward


def _interleaved(sides: Iterable[Iterator[Row]]) -> Iterator[Row]:
    """The first row of every side, then the second of every side, and so on."""
    for level in zip_longest(*sides):
        yield from (row for row in level if row is not None)


def _distinct(choices: Sequence[Choice]) -> list[Choice]:
    """Each kernel once, on its best device."""
    seen: dict[str, Choice] = {}
    for choice in choices:
        seen.setdefault(choice.kernel.digest, choice)
    return list(seen.values())
