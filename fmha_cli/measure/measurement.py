"""``Measurement``: raw samples and the conditions they were taken under; every summary is derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli.measure.roofline import CacheState, Floor, PeakKind, Peaks, floor_of
from fmha_cli.measure.sampling import Sampler, StopReason, sanity_notes
from fmha_cli.measure.stats import median, median_interval
from fmha_cli.problem import Problem

FORMULAS = (
    "FLOP forward = sum over sequences of heads * 2 * A * (hdim + hdim_v), A = visible pairs counted exactly; "
    "--flops dense counts all pairs.",
    "FLOP backward = heads * A * (6 * hdim + 4 * hdim_v).",
    "Bytes = every tensor once, K and V by their own heads.",
)
"""How ``flops`` and ``bytes`` are counted (contract, section 2), for ``fmha bench --help`` and the docs."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Times of one kernel on one problem.

    Attributes:
        launches: one tuple per counted launch, nanoseconds per stage, in the order taken.
        flops, bytes: of the problem (contract, section 2); ``dense`` says that all pairs were counted.
        cache, threads: conditions (threads 0 = not a matter of threads).
        warmup: launches left out before the first counted one.
        stop: why sampling ended.
        floor: the roofline floor, None where no peak is known.
    """

    launches: tuple[tuple[int, ...], ...]
    flops: int
    bytes: int
    cache: CacheState = CacheState.HOT
    threads: int = 0
    warmup: int = 0
    stop: StopReason = StopReason.SINGLE
    dense: bool = False
    floor: Floor | None = None

    def __post_init__(self) -> None:
        if not self.launches or len({len(launch) for launch in self.launches}) != 1 or not self.launches[0]:
            raise ValueError("a measurement needs launches, all of the same stages")

    @property
    def samples_ns(self) -> tuple[int, ...]:
        """Nanoseconds of each launch, all stages together."""
        return tuple(sum(launch) for launch in self.launches)

    @property
    def median_ns(self) -> int:
        return median(self.samples_ns)

    @property
    def ci95_ns(self) -> tuple[int, int] | None:
        """The 95 % interval of the median; None for fewer than 6 samples."""
        return median_interval(self.samples_ns)

    @property
    def stage_medians_ns(self) -> tuple[int, ...]:
        """Median of every stage by itself; their sum need not be ``median_ns``."""
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
    def peak_fraction(self) -> float | None:
        """Roofline floor / median: 1 is as fast as the peaks allow; None where no peak is known."""
        return None if self.floor is None else self.floor.ns / max(1, self.median_ns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Outliers and drift, in words."""
        return sanity_notes(self.samples_ns)

    def to_dict(self) -> dict[str, Any]:
        """The ``measurement`` member of a record. ``stage_samples_ns`` is null for a single stage."""
        several = len(self.launches[0]) > 1
        interval = self.ci95_ns
        return {
            "bytes": self.bytes,
            "cache": self.cache.value,
            "ci95_ns": None if interval is None else list(interval),
            "flops": self.flops,
            "flops_counted": "dense" if self.dense else "visible",
            "floor": None if self.floor is None else self.floor.to_dict(),
            "gbps": self.gbps,
            "median_ns": self.median_ns,
            "notes": list(self.notes),
            "peak_fraction": self.peak_fraction,
            "samples_ns": list(self.samples_ns),
            "stage_samples_ns": [list(times) for times in zip(*self.launches, strict=True)] if several else None,
            "stop": self.stop.value,
            "tflops": self.tflops,
            "threads": self.threads,
            "warmup": self.warmup,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Measurement:
        """The inverse of :meth:`to_dict`; summaries are derived again.

        Raises:
            KeyError, TypeError, ValueError: not a measurement.
        """
        stages = data["stage_samples_ns"] or [data["samples_ns"]]
        floor = data["floor"]
        return Measurement(
            launches=tuple(tuple(launch) for launch in zip(*stages, strict=True)),
            flops=data["flops"],
            bytes=data["bytes"],
            cache=CacheState(data["cache"]),
            threads=data["threads"],
            warmup=data["warmup"],
            stop=StopReason(data["stop"]),
            dense=data["flops_counted"] == "dense",
            floor=None if floor is None else Floor(PeakKind(floor["kind"]), floor["compute_ns"], floor["memory_ns"]),
        )


def measurement_of(
    problem: Problem,
    launches: Sequence[tuple[int, ...]],
    *,
    sampler: Sampler | None = None,
    spent_ns: int | None = None,
    cache: CacheState = CacheState.HOT,
    threads: int = 0,
    peaks: Peaks | None = None,
    dense: bool = False,
) -> Measurement:
    """The measurement of a run: all launches as they were taken, warm-up included.

    Args:
        sampler: the rule that the run followed; None counts every launch (``fmha run``).
        spent_ns: wall time so far, as it was given to the sampler.

    Raises:
        ValueError: no launches.
    """
    totals = [sum(launch) for launch in launches]
    warm = 0 if sampler is None else sampler.warmup(totals) or 0
    stop = StopReason.SINGLE if sampler is None else sampler.stop(totals, spent_ns) or StopReason.INTERRUPTED
    return Measurement(
        launches=tuple(launches[warm:]) or tuple(launches),
        flops=problem.flops(dense=dense),
        bytes=problem.bytes(),
        cache=cache,
        threads=threads,
        warmup=warm if warm < len(launches) else 0,
        stop=stop,
        dense=dense,
        floor=None if peaks is None else floor_of(problem, peaks, cache),
    )
