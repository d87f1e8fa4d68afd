"""How places compare, judged by the rows that ran at all of them (``--overlap``)."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.sampling import StopReason
from fmha_cli.bench.stats import median_interval
from fmha_cli.report.places import PlaceEffect
from fmha_cli.report.record import Record
from fmha_cli.sweeps.driver import SweepEnd
from fmha_cli.sweeps.plan import SweepPlan


def place_effects(plan: SweepPlan, done: SweepEnd) -> tuple[PlaceEffect, ...]:
    """One for each place of a kind of which rows ran everywhere, in the order of the places."""
    logs: dict[str, list[float]] = {}
    rows: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    for group in _together(plan, done.records):
        usual = Counter(record.verdict for record in group.values()).most_common(1)[0][0]
        rows.update(group.keys())
        differing.update(place for place, record in group.items() if record.verdict is not usual)
        times = {place: _median(record.measurement) for place, record in group.items()}
        known = {place: math.log(time) for place, time in times.items() if time}
        if len(known) == len(group):
            mean = statistics.fmean(known.values())
            for place, log in known.items():
                logs.setdefault(place, []).append(log - mean)
    return tuple(_effect(place, count, differing[place], logs.get(place, [])) for place, count in rows.items())


def _together(plan: SweepPlan, records: Sequence[Record]) -> Iterator[dict[str, Record]]:
    """The records of one row at all places."""
    groups: dict[tuple[int, int, int], dict[str, Record]] = {}
    for unit in plan.units:
        for place, number in enumerate(unit.numbers):
            if unit.place:
                groups.setdefault((unit.kind, unit.problem, place), {})[unit.place] = records[number]
    yield from groups.values()


def _median(measured: Measurement | None) -> float | None:
    """The median of a row that was timed; the time of a single launch says little."""
    return None if measured is None or measured.stop is StopReason.SINGLE else measured.median_ns


def _effect(place: str, rows: int, differing: int, logs: Sequence[float]) -> PlaceEffect:
    if not logs:
        return PlaceEffect(place=place, rows=rows, differing=differing, ratio=None, ratio_ci95=None)
    ends = median_interval(sorted(logs))
    return PlaceEffect(
        place=place,
        rows=rows,
        differing=differing,
        ratio=math.exp(statistics.median(logs)),
        ratio_ci95=None if ends is None else (math.exp(ends[0]), math.exp(ends[1])),
    )
