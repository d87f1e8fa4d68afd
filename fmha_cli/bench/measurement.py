"""``Measurement``: raw samples and the conditions under which they were taken; every summary is derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from fmha_cli.bench.conditions import Ceiling, ProcessorConditions
from fmha_cli.bench.roofline import CacheState, Floor, Peaks, floor_of
from fmha_cli.bench.sampling import StopReason, sanity_notes
from fmha_cli.bench.stats import median, median_interval, relative_width
from fmha_cli.domain.members import Count, FewestItems, Hidden, Least, Then
from fmha_cli.domain.problem import Problem

NOISY = 0.10
"""The interval of a median is wide from this share of the median on: then a difference of 5 % either way means nothing."""


class Noise(StrEnum):
    """The faults of a measurement's samples."""

    FEW = "few"
    """Too few samples for an interval."""
    WIDE = "wide"
    """The interval of the median is wide."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Times of one kernel on one problem.

    Attributes:
        launches: one tuple for each counted launch, nanoseconds of each stage, in the order taken.
        flops: FLOPs of the problem (contract, section 2).
        bytes: bytes of the problem (contract, section 2).
        dense: whether all pairs were counted, not only the visible ones.
        stop: why sampling ended.
        floor: the roofline floor; None where no peak is known.
        ceiling: the machine's best rate around the launches; None if it was not measured.
        process_of_sample: number of the process that took each sample; None if one process took all.
        conditions: of the processor on which the kernel ran; None on other devices.
    """

    launches: Annotated[
        tuple[tuple[int, ...], ...], Hidden(), Then("samples_ns", "stage_samples_ns", "median_ns", "ci95_ns")
    ]
    cache: CacheState = CacheState.HOT
    threads: Annotated[int, Least(0), "0: not a matter of threads"] = 0
    warmup: Annotated[int, Least(0), "launches left out before the first counted one"] = 0
    stop: StopReason = StopReason.SINGLE
    flops: Count
    dense: Annotated[bool, Hidden(), Then("flops_counted")] = False
    bytes: Annotated[int, Least(0), Then("tflops", "gbps", "peak_fraction")]
    floor: Annotated[Floor | None, Then("notes", "noise")] = None
    ceiling: Annotated[
        Ceiling | None,
        "the machine's best rate in a short loop right before and after the launches; null: nobody looked",
    ] = None
    process_of_sample: Annotated[
        tuple[Count, ...] | None, "number of the process that took each sample; null: one process took all"
    ] = None
    conditions: Annotated[
        ProcessorConditions | None, "the processor beside the launches; null: not told, or another device"
    ] = None

    def __post_init__(self) -> None:
        if not self.launches or len({len(launch) for launch in self.launches}) != 1 or not self.launches[0]:
            raise ValueError("a measurement needs launches, all of the same stages")
        if self.process_of_sample is not None and len(self.process_of_sample) != len(self.launches):
            raise ValueError("not one process for each sample")

    @property
    def samples_ns(self) -> Annotated[tuple[Count, ...], FewestItems(1), "counted launches, in the order taken"]:
        """Nanoseconds of each launch, all stages together."""
        return tuple(sum(launch) for launch in self.launches)

    @property
    def stage_samples_ns(
        self,
    ) -> Annotated[tuple[tuple[Count, ...], ...] | None, "one list per stage; null for a single stage"]:
        """Nanoseconds of each stage; None for a single one."""
        return tuple(zip(*self.launches, strict=True)) if len(self.launches[0]) > 1 else None

    @property
    def median_ns(self) -> Count:
        """The median of the counted launches."""
        return median(self.samples_ns)

    @property
    def ci95_ns(self) -> Annotated[tuple[Count, Count] | None, "95 % interval of the median"]:
        """The 95 % interval of the median; None for fewer than 6 samples."""
        return median_interval(self.samples_ns)

    @property
    def flops_counted(self) -> Literal["visible", "dense"]:
        """Which pairs ``flops`` counts."""
        return "dense" if self.dense else "visible"

    @property
    def stage_medians_ns(self) -> tuple[int, ...]:
        """Median of every stage separately. Their sum need not equal ``median_ns``."""
        return tuple(median(times) for times in zip(*self.launches, strict=True))

    @property
    def tflops(self) -> float:
        """10^12 FLOP/s at the median."""
        return self.flops / max(1, self.median_ns) / 1e3

    @property
    def gbps(self) -> float:
        """10^9 bytes/s at the median."""
        return self.bytes / max(1, self.median_ns)

    @property
    def peak_fraction(self) -> Annotated[float | None, "floor / median"]:
        """Roofline floor / median: 1 means as fast as the peaks allow; None where no peak is known."""
        return None if self.floor is None else self.floor.ns / max(1, self.median_ns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Outliers, drift and a ceiling that moved, in words."""
        return (*sanity_notes(self.samples_ns), *([] if self.ceiling is None else self.ceiling.notes))

    @property
    def noise(self) -> Annotated[Noise | None, "why the times say little; null: nothing speaks against them"]:
        """FEW without an interval, WIDE if it is wider than ``NOISY`` of the median."""
        if self.ci95_ns is None:
            return Noise.FEW
        return Noise.WIDE if relative_width(self.samples_ns) > NOISY else None

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Measurement:
        """The inverse of the JSON form; summaries are derived again."""
        stages = members["stage_samples_ns"] or (members["samples_ns"],)
        kept = (
            "cache",
            "threads",
            "warmup",
            "stop",
            "flops",
            "bytes",
            "floor",
            "ceiling",
            "process_of_sample",
            "conditions",
        )
        return cls(
            launches=tuple(zip(*stages, strict=True)),
            dense=members["flops_counted"] == "dense",
            **{name: members[name] for name in kept},
        )


def measurement_of(
    problem: Problem,
    launches: Sequence[tuple[int, ...]],
    *,
    warmup: int = 0,
    stop: StopReason = StopReason.SINGLE,
    cache: CacheState = CacheState.HOT,
    threads: int = 0,
    peaks: Peaks | None = None,
    dense: bool = False,
    ceiling: Ceiling | None = None,
    process_of_sample: tuple[int, ...] | None = None,
    conditions: ProcessorConditions | None = None,
) -> Measurement:
    """The measurement of a run.

    Args:
        launches: the counted launches in the order taken.
        warmup: number of launches before them.
        stop: why sampling ended.
        ceiling: the machine's best rate around them.
        process_of_sample: the number of the process of each launch; None if there was one.
        conditions: of the processor around them.

    Raises:
        ValueError: there are no launches.
    """
    return Measurement(
        launches=tuple(launches),
        flops=problem.flops(dense=dense),
        bytes=problem.bytes(),
        cache=cache,
        threads=threads,
        warmup=warmup,
        stop=stop,
        dense=dense,
        floor=None if peaks is None else floor_of(problem, peaks, cache),
        ceiling=ceiling,
        process_of_sample=process_of_sample,
        conditions=conditions,
    )
