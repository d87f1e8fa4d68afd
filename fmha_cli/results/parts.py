"""A record taken apart for the store, and put together again: ``joined(taken_apart(record)) == record``.

What many records share (problem, kernel, build, host) is told apart from what is a record's own (``rest``). Members that
are derived from others are left out: the median of samples, the worst of several fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.verdict import Verdict
from fmha_cli.measure.stats import median
from fmha_cli.report.finite import is_note
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.packing import DamagedError, Stages

_DERIVED: Mapping[str, Any] = {"median_ns": 0, "tflops": 0.0, "gbps": 0.0, "notes": []} | dict.fromkeys(
    ("ci95_ns", "peak_fraction", "noise")
)
"""Members of a measurement that are computed anew, and what stands for them until then."""

_SAMPLES = ("samples_ns", "stage_samples_ns", "process_of_sample")


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
        kernel: with its backend and architecture; None if nothing was chosen.
        build: the stages without their times; None if there are none.
        host: the machine and its processor; None if neither is known.
        samples: of each process, in the order of the processes; one empty entry for a record without samples.
    """

    problem: Shared
    kernel: Shared | None
    build: Shared | None
    host: Shared | None
    rest: Mapping[str, Any]
    samples: Sequence[Stages]


def taken_apart(record: Record, run: RunRow | None) -> Parts:
    """The parts of a record.

    Args:
        run: what the store says of the record's run; only what the record says differently is kept with the record.
    """
    row = record.to_dict()
    problem, kernel, stages = (row.pop(name) for name in ("problem", "kernel", "stages"))
    host = {name: row.pop(name) for name in ("host", "processor")}
    about = None if kernel is None else {"kernel": kernel, **{name: row.pop(name) for name in ("backend", "arch")}}
    del row["checks"]
    row["notes"] = [note for note in row["notes"] if not (is_note(note) and note.startswith("checks."))]
    row["run"] = _difference(row["run"], None if run is None else to_json(run))
    samples: Sequence[Stages] = ((),)
    times: list[int | None] = [stage["time_ns"] for stage in stages]
    derived: Sequence[int | None] = [None] * len(stages)
    measured = row["measurement"]
    if measured is not None:
        row["measurement"] = {k: v for k, v in measured.items() if k not in _DERIVED and k not in _SAMPLES}
        whole = tuple(map(tuple, measured["stage_samples_ns"] or (measured["samples_ns"],)))
        samples, order = _by_process(whole, measured["process_of_sample"])
        row["measurement"] |= {} if order is None else {"order": order}
        derived = _medians(whole, len(stages)) or derived
    row |= {} if times == list(derived) else {"times": times}
    build = [{name: value for name, value in stage.items() if name != "time_ns"} for stage in stages]
    return Parts(
        problem=Shared.of(problem),
        kernel=None if about is None else Shared.of(about),
        build=Shared.of(build) if build else None,
        host=Shared.of(host) if any(host.values()) else None,
        rest={name: value for name, value in row.items() if name not in _ABSENT or value != _ABSENT[name]},
        samples=samples,
    )


def joined(
    rest: Mapping[str, Any],
    *,
    problem: Any,
    kernel: Any,
    build: Any,
    host: Any,
    run: RunRow | None,
    samples: Sequence[Stages],
) -> Record:
    """The inverse of :func:`taken_apart`, from the JSON values of the parts.

    Raises:
        DecodeError, DamagedError: the parts do not make a record.
    """
    row = {**rest}
    row["run"] = _restored(row.get("run"), None if run is None else to_json(run))
    row |= {"problem": problem, "checks": None, "stages": [{**stage, "time_ns": None} for stage in build or ()]}
    row |= {"kernel": None} if kernel is None else kernel
    row |= host or {}
    times = row.pop("times", None)
    if row.get("measurement") is not None:
        measured = {**row["measurement"]}
        whole, processes = _in_order(samples, measured.pop("order", None))
        if times is None:
            times = _medians(whole, len(row["stages"]))
        measured |= {**_DERIVED, "samples_ns": [sum(launch) for launch in zip(*whole, strict=True)]}
        measured |= {"stage_samples_ns": [list(stage) for stage in whole] if len(whole) > 1 else None}
        row["measurement"] = {**dict.fromkeys(("floor", "ceiling", "conditions")), **measured}
        row["measurement"]["process_of_sample"] = processes
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


_BARE = Record(problem={}, repro="", verdict=Verdict.NOT_RUN).to_dict()
_ABSENT: Mapping[str, Any] = {name: value for name, value in _BARE.items() if value in (None, [])}
"""Members that say nothing, which ``rest`` leaves out."""


def _difference(mine: Mapping[str, Any] | None, run: Mapping[str, Any] | None) -> Any:
    """What a record says of its run that the run does not: ``False`` for nothing, ``None`` for no difference."""
    if mine is None:
        return False
    return {name: value for name, value in mine.items() if run is None or run[name] != value} or None


def _restored(difference: Any, run: Mapping[str, Any] | None) -> Any:
    return None if difference is False else {**(run or {}), **(difference or {})} or None


def _medians(stages: Stages, count: int) -> list[int]:
    """The median of each stage; none if the samples are not told by stage."""
    return [median(samples) for samples in stages] if len(stages) == count else []


def _by_process(stages: Stages, processes: Sequence[int] | None) -> tuple[Sequence[Stages], Any]:
    """The samples of each process; and the order of the processes where it is not one after the other, or is told though
    there was one process."""
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
