"""What the layers of a model or the calls of a workload cost: the columns that name them, and the time of all together.

The sum takes the median time of each row, times the number of its calls. It counts the calls that lack a time, so nobody takes
a part for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.layer import Layer, LayerKind, LayerPhase
from fmha_cli.domain.members import Count, Least, Then
from fmha_cli.domain.quantities import duration
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.column import Column
from fmha_cli.report.lines import problem_text
from fmha_cli.report.parts import SelectedBy
from fmha_cli.report.record import Record

LAYER_COLUMNS = (
    Column("model", lambda row: row.layer.model if row.layer else "", common="{}".format, rank=2),
    Column("phase", lambda row: (row.layer and row.layer.phase) or "", common="{}".format, rank=2),
    Column("layers", lambda row: row.layer.text if row.layer and row.layer.kind else ""),
    Column("calls", lambda row: str(row.layer.weight) if row.layer and not row.layer.kind else "", number=True),
)
"""The columns that say for which calls of a model or workload a row stands."""


def layer_of(record: Record) -> Layer | None:
    """The calls for which a record stands; None without a model or workload."""
    model, weight = record.model, record.weight
    if model is None or weight is None:
        return None
    kind, assumed = record.layer_kind, bool(record.assumed)
    return Layer(model=model, kind=kind, phase=record.phase, weight=weight, assumed=assumed, calls=record.calls)


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """The layers of one kind in a sum, or the calls of one row."""

    kind: Annotated[LayerKind | None, "null: calls of a workload"]
    weight: Annotated[int, Least(1), "the number of such layers or calls"]
    row: Annotated[int, Least(1), "number of the record, from 1"]
    verdict: Verdict
    time_ns: Annotated[Count | None, "median of one; null: no time that counts"]
    noisy: Annotated[bool, "the interval of the median is wide, or missing"] = False

    json_later: ClassVar[tuple[str, ...]] = ("noisy",)


@dataclass(frozen=True, kw_only=True)
class ModelSum:
    """The time of a model's layers in one phase, at one point of the sweep, or of a workload's calls."""

    model: Annotated[str, "or the file of the workload"]
    phase: Annotated[LayerPhase | None, "null: of a workload"]
    point: Annotated[str, "what the problems of all its layers share"]
    backend: Annotated[str | None, "null: chosen for each kind of layer"]
    cache: Annotated[str | None, "state of the caches; null: nothing was timed"]
    layers: tuple[LayerTime, ...]
    time_ns: Annotated[Count, "the medians of the layers that have a time, each times the number of such layers"]
    timed: Annotated[Count, "layers or calls that have a time"]
    total: Annotated[Count, "layers that were asked for; all calls of the workload", Then("complete")]

    @property
    def complete(self) -> Annotated[bool, "each of them has a time"]:
        return self.timed == self.total

    def text(self, shown: str) -> str:
        """The sum in one line, with ``shown`` for its point."""
        words = (self.model, self.phase or "", shown, self.backend or "", self.cache or "")
        if self.phase is None:
            return self._text_of_calls(" ".join(filter(None, words)))
        kinds = ", ".join(
            f"{one.weight} {one.kind} {'NOISY ' if one.noisy else ''}{duration(one.time_ns)} each"
            for one in self.layers
            if one.time_ns
        )
        time = f"{'NOISY ' if any(one.noisy for one in self.layers) else ''}{duration(self.time_ns)}"
        what = f"{' '.join(filter(None, words))}: "
        if self.complete:
            return f"{what}{time} in {self.total} layers ({kinds})"
        lost = ", ".join(f"{one.weight} {one.kind} ({one.verdict})" for one in self.layers if one.time_ns is None)
        some = f"{time} in {self.timed} of {self.total} layers ({kinds}); " if self.timed else ""
        return f"{what}incomplete: {some}no time of {lost}"

    def _text_of_calls(self, what: str) -> str:
        """The sum of a workload, whose problems may be many."""
        time = f"{'NOISY ' if any(one.noisy for one in self.layers) else ''}{duration(self.time_ns)}"
        if self.complete:
            return f"{what}: {time} in {self.total} calls"
        lost: dict[str, int] = {}
        for one in self.layers:
            if one.time_ns is None:
                lost[f"({one.verdict})"] = lost.get(f"({one.verdict})", 0) + one.weight
        unmapped = self.total - sum(one.weight for one in self.layers)
        parts = [f"{count} {verdict}" for verdict, count in lost.items()]
        parts += [f"{unmapped} without a row"] if unmapped > 0 else []
        some = f"{time} in {self.timed} of {self.total} calls; " if self.timed else ""
        return f"{what}: incomplete: {some}no time of {', '.join(parts)}"


_Row = tuple[int, Record, Layer]
"""The number of a record, from 1, the record, and its layers."""


def model_sums(records: Sequence[Record]) -> list[ModelSum]:
    """The sums of the models and workloads in the records of ``bench``, in the order of their first rows."""
    compared = any(record.selected_by is SelectedBy.BACKEND for record in records)
    groups: dict[tuple[object, ...], list[_Row]] = {}
    for number, record in enumerate(records, 1):
        layer, timed = layer_of(record), record.run is not None and record.run.command == "bench"
        if timed and layer is not None and record.default_choice is not False:
            groups.setdefault(_place(record, layer, compared), []).append((number, record, layer))
    return [one for key, rows in groups.items() for one in _sums(rows, key[-1] is not None)]


def _place(record: Record, layer: Layer, compared: bool) -> tuple[object, ...]:
    """What the rows of one sum have in common; the last item is the backend or kernel whose rows are summed."""
    own = record.backend if compared else None
    if record.selected_by is SelectedBy.PAIR and record.kernel is not None:
        own = record.kernel.digest
    if layer.phase is None:
        return layer.model, own
    point = {key: value for key, value in record.problem.items() if key not in _OF_THE_LAYER}
    return layer.model, layer.phase, repr(sorted(point.items())), own


_OF_THE_LAYER = ("mask", "heads", "kv_heads", "hdim", "hdim_v", "scale", "mla_rope", "sink_logits")
"""Members of a problem in which layers of one model may differ."""


def _sums(rows: Sequence[_Row], named: bool) -> Iterator[ModelSum]:
    """The sums of rows in one place: one for each state of the caches, and for each time that the point was asked for."""
    kinds = list(dict.fromkeys(layer.kind for _, _, layer in rows))
    known = dict.fromkeys(cache for _, record, _ in rows if (cache := _cache(record)) is not None)
    caches: list[str | None] = [*known] or [None]
    for cache in caches:
        here = [one for one in rows if _cache(one[1]) in (cache, None)]
        if kinds == [None]:
            yield _sum(here, cache, named)
            continue
        fit = {kind: [one for one in here if one[2].kind is kind] for kind in kinds}
        for turn in range(max(map(len, fit.values()))):
            yield _sum([found[turn] for found in fit.values() if turn < len(found)], cache, named)


def _cache(record: Record) -> str | None:
    return None if record.measurement is None else record.measurement.cache.value


def _sum(rows: Sequence[_Row], cache: str | None, named: bool) -> ModelSum:
    _, first, of = rows[0]
    layers = tuple(_layer_time(*row) for row in rows)
    words = [problem_text(record.problem).split() for _, record, _ in rows]
    return ModelSum(
        model=of.model,
        phase=of.phase,
        point=" ".join(word for word in words[0] if all(word in other for other in words)),
        backend=first.backend if named else None,
        cache=cache,
        layers=layers,
        time_ns=sum(one.weight * one.time_ns for one in layers if one.time_ns is not None),
        timed=sum(one.weight for one in layers if one.time_ns is not None),
        total=sum(one.weight for one in layers) if of.calls is None else of.calls,
    )


def _layer_time(number: int, record: Record, layer: Layer) -> LayerTime:
    """The layers of one row; only a row that is good has a time."""
    measured = record.measurement if record.verdict.exit_code is ExitCode.OK else None
    return LayerTime(
        kind=layer.kind,
        weight=layer.weight,
        row=number,
        verdict=record.verdict,
        time_ns=None if measured is None else measured.median_ns,
        noisy=measured is not None and measured.noise is not None,
    )


_SIZE = re.compile(r"[bs]\d")
"""The words of ``problem_text`` for batch and lengths."""


def sum_lines(sums: Sequence[ModelSum]) -> list[str]:
    """One line for each sum; what the points of all sums share is left out, but for batch and lengths."""
    points = [one.point.split() for one in sums]
    shared = {word for word in (points[0] if points else ()) if all(word in other for other in points)}
    return [
        f"  {one.text(' '.join(word for word in words if word not in shared or _SIZE.match(word)))}"
        for one, words in zip(sums, points, strict=True)
    ]
