"""The dataset ``rows``: the members of each record for plots and tooltips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.sampling import StopReason
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.quantities import digits, duration
from fmha_cli.report.lines import SHORT, problem_text
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import is_good

Row = Mapping[str, Any]

MEMBERS = ("row", "problem", "where", "run", "conditions", "time", "again")
"""The members of every entry; ``again`` is the line that gives the row again."""


@dataclass(frozen=True)
class TimedRow:
    """A record whose times count, and its number in the page (from 1)."""

    row: int
    run: str
    record: Record
    measured: Measurement

    @property
    def backend(self) -> str:
        return self.record.backend or ""

    @cached_property
    def median_ns(self) -> int:
        """The measurement's, which is computed from all samples each time."""
        return self.measured.median_ns

    @cached_property
    def interval_ns(self) -> tuple[int, int] | None:
        """The 95 % interval of the median; None for too few samples."""
        return self.measured.ci95_ns

    @property
    def rate(self) -> float:
        """FLOP/s at the median."""
        return self.measured.flops / max(1, self.median_ns) * 1e9

    @property
    def kernel(self) -> str:
        """The first digits of the kernel's digest."""
        return "" if self.record.kernel is None else self.record.kernel.digest[:SHORT]


def timed(records: Sequence[Record], run_of: Sequence[str]) -> tuple[TimedRow, ...]:
    """The good records that were timed: a single launch says little, and an emulated device has no times."""
    return tuple(
        TimedRow(number, run, record, record.measurement)
        for number, (record, run) in enumerate(zip(records, run_of, strict=True), 1)
        if record.measurement is not None
        and record.measurement.stop is not StopReason.SINGLE
        and is_good(record)
        and not is_emulated(record.device)
    )


def rows_of(records: Sequence[Record], run_of: Sequence[str]) -> list[dict[str, Any]]:
    """One entry for each record, with ``MEMBERS``."""
    several = len(set(run_of)) > 1
    return [
        {
            "row": number,
            "problem": problem_text(record.problem),
            "where": where_of(record),
            "run": run if several else "",
            "conditions": conditions_of(record),
            "time": time_of(record.measurement),
            "again": record.repro,
        }
        for number, (record, run) in enumerate(zip(records, run_of, strict=True), 1)
    ]


def where_of(record: Record) -> str:
    """Backend, architecture and the digest's first digits: ``cpu x86_64_v4 1a2b3c4d``."""
    digest = None if record.kernel is None else record.kernel.digest[:SHORT]
    return " ".join(part for part in (record.backend, record.arch, digest) if part)


def conditions_of(record: Record) -> str:
    """Device, cache, threads, the kind of the peak, and the verdict of a row."""
    measured = record.measurement
    parts = [record.device or "", record.verdict.value]
    if measured is not None:
        parts += [f"{measured.cache.value} cache", f"{measured.threads} threads" if measured.threads else ""]
        parts += ["" if measured.floor is None else f"{measured.floor.kind.value} peak"]
    return ", ".join(filter(None, parts))


def time_of(measured: Measurement | None) -> str:
    """``812 us [806, 819], n = 60``."""
    if measured is None:
        return ""
    ends = measured.ci95_ns
    shown = "" if ends is None else f" [{duration(ends[0])}, {duration(ends[1])}]"
    return f"{duration(measured.median_ns)}{shown}, n = {len(measured.launches)}"


def rounded(value: float, places: int = 5) -> float:
    """A number with so many significant digits: what a pixel can show, in few characters."""
    return float(f"{value:.{places}g}")


def seqlen_of(record: Record) -> int:
    """The longer of both lengths, in which a prefill and a decode differ from others of their kind."""
    return max(int(record.problem["seqlen_q"]), int(record.problem["seqlen_k"]))


def shared_words(records: Sequence[Record]) -> str:
    """The common conditions of the rows, for the caption of a plot: devices, threads, caches, kinds of peaks, samples."""
    measured = [record.measurement for record in records if record.measurement is not None]
    counts = [len(one.launches) for one in measured]
    peaks = {one.floor.kind.value for one in measured if one.floor is not None}
    parts = {
        "device": {record.device or "none" for record in records},
        "cache": {one.cache.value for one in measured},
        "threads": {str(one.threads) for one in measured if one.threads},
        "peak": peaks,
    }
    words = [f"{name} {', '.join(sorted(found))}" for name, found in parts.items() if found]
    if counts:
        words.append(f"n {min(counts)}" + (f" to {max(counts)}" if max(counts) > min(counts) else ""))
    return "; ".join(words)[:1].upper() + "; ".join(words)[1:]


def varying(texts: Sequence[str]) -> tuple[list[str], str]:
    """Texts without the words that all of them share, and those words."""
    words = [text.split() for text in texts]
    shared = [word for word in words[0] if all(word in other for other in words)] if len(words) > 1 else []
    left = [" ".join(word for word in one if word not in shared) for one in words]
    return [short or text for short, text in zip(left, texts, strict=True)], " ".join(shared)


def percent_text(share: float) -> str:
    """A share in per cent: ``3.2``."""
    return digits(share * 100, 2) if share else "0"
