"""A record taken apart for the store, and put together again: ``joined(taken_apart(record)) == record``.

What many records share (problem, kernel, build, host) is stored apart from what is a record's own (``rest``). Members
that are derived from others are left out: the median of samples, the worst of several fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.stats import median
from fmha_cli.domain.codec import members_of, to_json
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.finite import is_note
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.packing import DamagedError, Stages

_SET = (
    *("backend", "arch", "fills", "fill_notes", "judging", "inputs", "settings", "repro", "splits", "workspace_bytes"),
    *(
        "dropout_stream",
        "selected_by",
        "launches",
        "schema",
        "model",
        "layer_kind",
        "weight",
        "assumed",
        "calls",
        "default_choice",
        "device",
    ),
)
_SET_OF_MEASUREMENT = ("bytes", "cache", "floor", "flops", "flops_counted", "threads")
"""Members of a record and of its measurement that stay the same when a row is measured again."""

_SAMPLES = ("samples_ns", "stage_samples_ns", "process_of_sample")
_DERIVED = {m.key for m in members_of(Measurement) if not m.stored} - {*_SAMPLES, *_SET_OF_MEASUREMENT}
"""Members of a measurement that follow from others."""


_BARE = Record(problem={}, repro="", verdict=Verdict.NOT_RUN).to_dict()
_ABSENT: Mapping[str, Any] = {name: value for name, value in _BARE.items() if value in (None, [])}
"""Members that say nothing, which the parts leave out."""
_MISSING = object()


@dataclass(frozen=True)
class Shared:
    """Something that several records have in common, as canonical JSON."""

    text: str

    @property
    def digest(self) -> bytes:
        """Half of the sha256: enough to tell a store's few thousand texts apart."""
        return hashlib.sha256(self.text.encode()).digest()[:16]

    @staticmethod
    def of(value: Any) -> Shared:
        """The shared form of a JSON value."""
        return Shared(canonical_json(value))


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A record taken apart.

    Attributes:
        shared: what records share, by the table that has it; None where a record has nothing of the kind. ``kernel`` is with its
            backend and architecture, ``build`` the stages without their times, ``host`` the machine and its processor, and
            ``setup`` what stays the same when a row is measured again, the figures of its check included.
        rest: what is a record's own.
        samples: of each process, in the order of the processes; one empty entry for a record without samples.
    """

    shared: Mapping[str, Shared | None]
    rest: Mapping[str, Any]
    samples: Sequence[Stages]


@dataclass(frozen=True, kw_only=True)
class RowPlace:
    """What the store says of a record in addition to its parts.

    Attributes:
        run: of the record; None if nothing is known of it.
        key: of the row within the run.
        started: when the row was dispatched, ISO 8601 in UTC.
    """

    run: RunRow | None
    key: str
    started: str | None


def taken_apart(record: Record, place: RowPlace) -> Parts:
    """The parts of a record. Members that equal the place's are left out; members that differ are a part."""
    row = record.to_dict()
    problem, kernel, stages = (row.pop(name) for name in ("problem", "kernel", "stages"))
    host = {name: row.pop(name) for name in ("host", "processor")}
    about = None if kernel is None else {"kernel": kernel, **{name: row.pop(name) for name in ("backend", "arch")}}
    del row["checks"]
    row["notes"] = [note for note in row["notes"] if not (is_note(note) and note.startswith("checks."))]
    row["run"] = _difference(row["run"], None if place.run is None else to_json(place.run))
    told = {"row": place.key, "started": place.started}
    row["own"] = {name: value for name in told if (value := row.pop(name)) != told[name]} or None
    samples: Sequence[Stages] = ((),)
    times: list[int | None] = [stage["time_ns"] for stage in stages]
    derived: Sequence[int | None] = [None] * len(stages)
    measured, setup = row["measurement"], {}
    if measured is not None:
        row["measurement"] = {k: v for k, v in measured.items() if k not in _DERIVED and k not in _SAMPLES}
        whole = tuple(map(tuple, measured["stage_samples_ns"] or (measured["samples_ns"],)))
        samples, order = _by_process(whole, measured["process_of_sample"])
        row["measurement"] |= {} if order is None else {"order": order}
        derived = _medians(whole, len(stages)) or derived
        setup = {"measurement": {name: row["measurement"].pop(name) for name in _SET_OF_MEASUREMENT}}
    row |= {} if times == list(derived) else {"times": times}
    build = [{name: value for name, value in stage.items() if name != "time_ns"} for stage in stages]
    setup |= {name: value for name in _SET if (value := row.pop(name, None)) != _ABSENT.get(name, _MISSING)}
    shared = {"problem": problem, "kernel": about, "build": build or None, "setup": setup}
    shared["host"] = host if any(host.values()) else None
    return Parts(
        shared={name: None if value is None else Shared.of(value) for name, value in shared.items()},
        rest={name: value for name, value in row.items() if value is not None and value != _ABSENT.get(name, _MISSING)},
        samples=samples,
    )


def joined(shared: Mapping[str, Any], rest: Mapping[str, Any], samples: Sequence[Stages], place: RowPlace) -> Record:
    """The inverse of :func:`taken_apart`, from the JSON values of the parts.

    Raises:
        DecodeError, DamagedError: the parts do not make a record.
    """
    setup = {**shared["setup"]}
    how = setup.pop("measurement", {})
    row = {**setup, **rest}
    row |= {"row": place.key, "started": place.started, **(row.pop("own", None) or {})}
    row["run"] = _restored(row.get("run"), None if place.run is None else to_json(place.run))
    row |= {"problem": shared["problem"], "checks": None}
    row["stages"] = [{**stage, "time_ns": None} for stage in shared["build"] or ()]
    row |= shared["kernel"] or {"kernel": None}
    row |= shared["host"] or {}
    times = row.pop("times", None)
    if row.get("measurement") is not None:
        measured = {**how, **row["measurement"]}
        whole, processes = _in_order(samples, measured.pop("order", None))
        if times is None:
            times = _medians(whole, len(row["stages"]))
        measured |= {"samples_ns": [sum(launch) for launch in zip(*whole, strict=True)]}
        measured |= {"stage_samples_ns": [list(stage) for stage in whole] if len(whole) > 1 else None}
        measured["process_of_sample"] = processes
        row["measurement"] = measured
    for stage, time in zip(row["stages"], times or (), strict=False):
        stage["time_ns"] = time
    return Record.from_dict({**_ABSENT, **row})


def row_key(record: Record, before: Mapping[str, int]) -> str:
    """The key of a record that an earlier version wrote without one: what it is about, and how many such rows came before.

    Args:
        before: digest of what a row is about -> number of earlier rows of the run with it.
    """
    return record.row or digest_of([about(record), before.get(about(record), 0)])[:24]


def about(record: Record) -> str:
    """A digest of a record's problem, kernel, device and conditions."""
    measured = record.measurement
    how = None if measured is None else [measured.cache.value, measured.threads]
    kernel = None if record.kernel is None else record.kernel.digest
    return digest_of([dict(record.problem), record.backend, record.device, record.arch, kernel, how])


def _difference(mine: Mapping[str, Any] | None, run: Mapping[str, Any] | None) -> Any:
    """What a record says of its run that the run does not: ``False`` for nothing, ``None`` for no difference."""
    if mine is None:
        return False
    return {name: value for name, value in mine.items() if run is None or run[name] != value} or None


def _restored(difference: Any, run: Mapping[str, Any] | None) -> Any:
    return None if difference is False else {**(run or {}), **(difference or {})} or None


def _medians(stages: Stages, count: int) -> list[int]:
    """The median of each stage; none if the samples are not split by stage."""
    return [median(samples) for samples in stages] if len(stages) == count else []


def _by_process(stages: Stages, processes: Sequence[int] | None) -> tuple[Sequence[Stages], Any]:
    """The samples of each process; and the order of the processes where it is not one after the other, or is stated
    though there was one process.
    """
    if processes is None:
        return (stages,), None
    numbers = sorted(set(processes))
    apart = tuple(
        tuple(tuple(s for s, p in zip(samples, processes, strict=True) if p == number) for samples in stages)
        for number in numbers
    )
    plain = len(numbers) > 1 and list(processes) == sorted(processes) and numbers == list(range(len(numbers)))
    return apart, None if plain else list(processes)


def _in_order(samples: Sequence[Stages], order: Sequence[int] | None) -> tuple[Stages, list[int] | None]:
    """The inverse of :func:`_by_process`."""
    if order is None and len(samples) == 1:
        return samples[0], None
    processes = [n for n, stages in enumerate(samples) for _ in stages[0]] if order is None else list(order)
    numbers = sorted(set(processes))
    places = {number: iter(zip(*samples[place], strict=True)) for place, number in enumerate(numbers)}
    try:
        launches = [next(places[process]) for process in processes]
    except StopIteration as fault:
        raise DamagedError("samples: fewer than the order of their processes tells") from fault
    return tuple(zip(*launches, strict=True)), processes
