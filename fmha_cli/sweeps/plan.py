"""The plan of a sweep: every row before anything runs, and the rows in chunks that need the same kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.report.record import Record
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row, plan_rows
from fmha_cli.run.tuned_choice import Kept, among, chooser_of, entries_among
from fmha_cli.sweeps.jobs import ChunkJob, mark_of
from fmha_cli.sweeps.places import PlaceKind, WorkerPlace


@dataclass(frozen=True)
class SweepUnit:
    """The rows of one problem on one kind of device. They run together, because they may be compared with each other.

    Attributes:
        first: number of its first row among all rows of the sweep.
        place: the only place that may run it (``WorkerPlace.text``); empty for every place of its kind.
    """

    kind: int
    problem: int
    first: int
    rows: tuple[Row, ...]
    place: str = ""

    @property
    def numbers(self) -> range:
        """The numbers of its rows among all rows of the sweep."""
        return range(self.first, self.first + len(self.rows))

    @property
    def builds(self) -> frozenset[str]:
        """What has to be built for it, by ``Order.key``."""
        return frozenset(order.key for row in self.rows for order in row.orders)

    @property
    def runs(self) -> bool:
        """Whether a worker is needed. A problem without a kernel has its record at once."""
        return any(row.choice is not None for row in self.rows)


@dataclass(frozen=True)
class Chunk:
    """Units that one worker runs one after the other. All need the same kernels, which are built once."""

    number: int
    kind: int
    units: tuple[SweepUnit, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its rows among all rows of the sweep, in the order of the worker's rows."""
        return tuple(number for unit in self.units for number in unit.numbers)

    @property
    def builds(self) -> frozenset[str]:
        return self.units[0].builds

    @property
    def place(self) -> str:
        """The only place that may run it; empty for every place of its kind."""
        return self.units[0].place


@dataclass(frozen=True)
class SweepPlan:
    """All rows of a sweep.

    Attributes:
        request: the options; each kind of device has its own device in it.
        points: every problem.
        layers: of a model, one for each problem; empty without a model.
        units: in the order in which rows are shown.
        tuned: the remembered kernels of the problems.
    """

    request: Request
    points: tuple[Problem, ...]
    layers: tuple[Layer | None, ...]
    kinds: tuple[PlaceKind, ...]
    units: tuple[SweepUnit, ...]
    tuned: Kept = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every row, in order."""
        return tuple(row for unit in self.units for row in unit.rows)

    def request_of(self, kind: int) -> Request:
        """The options with the device for which the rows of a kind were planned."""
        return replace(self.request, device=self.kinds[kind].first)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """The rows that need a worker, in chunks of about ``size`` rows; rows with the same kernels follow each other."""
        groups: dict[tuple[int, frozenset[str], str], list[SweepUnit]] = {}
        for unit in self.units:
            if unit.runs:
                groups.setdefault((unit.kind, unit.builds, unit.place), []).append(unit)
        number = 0
        for (kind, _, _), units in groups.items():
            for part in _parts(units, size):
                yield Chunk(number, kind, part)
                number += 1

    def job(self, chunk: Chunk, done: Callable[[int], Record | None]) -> ChunkJob:
        """What a worker needs to run a chunk.

        Args:
            done: the record of a row that is done already, by the row's number.
        """
        problems = [unit.problem for unit in chunk.units]
        past = {str(place): done(number) for place, number in enumerate(chunk.numbers)}
        return ChunkJob(
            number=chunk.number,
            request=self.request,
            points=tuple(self.points[n].repro() for n in problems),
            layers=tuple(self.layers[n] for n in problems) if self.layers else (),
            expected=tuple(mark_of(row) for unit in chunk.units for row in unit.rows),
            past={place: record.to_dict() for place, record in past.items() if record is not None},
            builds=tuple(sorted(chunk.builds)),
            tuned=among(self.tuned, (self.points[n] for n in problems)),
        )


def _parts(units: Sequence[SweepUnit], size: int) -> Iterator[tuple[SweepUnit, ...]]:
    """Units in parts of at least ``size`` rows, the last one excepted."""
    part: list[SweepUnit] = []
    for unit in units:
        part.append(unit)
        if sum(len(one.rows) for one in part) >= size:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)


def plan_sweep(
    points: Sequence[Problem],
    layers: Sequence[Layer | None],
    request: Request,
    registry: Registry,
    kinds: Sequence[PlaceKind],
    voice: Voice,
    places: Sequence[WorkerPlace] = (),
    overlap: float = 0.0,
    tuned: Kept | None = None,
) -> SweepPlan:
    """Plan every row for every kind of device; the rows of one problem stand side by side.

    Args:
        overlap: the share of the problems that run at every one of the places, which makes the places comparable.
        tuned: see ``Spec``.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: see ``plan_rows``.
    """
    kept: Kept = tuned or {}
    planned: list[dict[int, tuple[Row, ...]]] = []
    for kind in kinds:
        own = replace(request, device=kind.first)
        chooser = chooser_of(own, registry, kind.found, entries_among(kept), voice)
        rows = plan_rows(points, own, registry, kind.found, voice, layers, chooser)
        planned.append({group: tuple(those) for group, those in groupby(rows, lambda row: row.group)})
    units = tuple(_units(len(points), planned, places, overlap))
    plan = SweepPlan(request, tuple(points), tuple(layers), tuple(kinds), units, kept)
    if len({row.key for row in plan.rows}) != len(plan.rows):
        raise InternalError("two rows of a sweep have one key")
    return plan


def _units(
    points: int, planned: Iterable[dict[int, tuple[Row, ...]]], places: Sequence[WorkerPlace], overlap: float
) -> Iterator[SweepUnit]:
    kinds = list(planned)
    first = 0
    for problem in range(points):
        everywhere = int((problem + 1) * overlap) > int(problem * overlap)
        for kind, rows in enumerate(kinds):
            mine = [place.text for place in places if place.kind == kind] if everywhere else []
            for copy, place in enumerate(mine if len(mine) > 1 else [""]):
                # the number of the group tells the keys of the copies apart
                copies = tuple(replace(row, group=row.group + copy * points) for row in rows[problem])
                yield SweepUnit(kind, problem, first, copies, place)
                first += len(copies)
