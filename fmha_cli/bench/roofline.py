"""The roofline: the least time that a machine's peaks allow, and the judgement on a shorter time.

The floor is max(FLOPs / peak FLOP/s, bytes / peak bytes/s) (S. Williams et al., "Roofline", CACM 52(4), 2009).
FLOPs count the visible pairs only. Bytes count the data that *must* cross the memory bus, which are fewer than the
``bytes`` of a record: masked keys need not be read, written results may stay in a cache, and data that fit into a hot
cache need not be read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from fmha_cli.bench.stats import median
from fmha_cli.domain.members import Then
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import duration
from fmha_cli.domain.rules import Reason


class CacheState(StrEnum):
    """The place of the tensors when a timed launch begins."""

    HOT = "hot"
    """Where the previous launch left them."""
    COLD = "cold"
    """Pushed out of the last-level cache before every launch."""


class PeakKind(StrEnum):
    """The source of peaks: loops run on this machine, or the data sheet."""

    MEASURED = "measured"
    SPEC = "spec"


class Bound(StrEnum):
    """The peak that sets the floor."""

    COMPUTE = "compute"
    MEMORY = "memory"


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """The best rates of a device.

    Attributes:
        flops: dtype name -> FLOP/s of the fastest instructions that keep that dtype's promised accuracy.
        bandwidth: bytes/s from main memory, None if unknown.
        llc_bytes: last-level cache in bytes, None if unknown (then a hot run has no memory floor).
        source: the loop or data sheet behind the figures.
    """

    kind: PeakKind
    flops: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float | None = None
    llc_bytes: int | None = None
    source: str = ""


@dataclass(frozen=True)
class Floor:
    """Roofline floor: the least time that the machine's peaks allow, in nanoseconds (0 where no peak is known)."""

    kind: Annotated[PeakKind, Then("bound", "ns")]
    compute_ns: float
    memory_ns: float

    @property
    def ns(self) -> float:
        return max(self.compute_ns, self.memory_ns)

    @property
    def bound(self) -> Bound:
        return Bound.COMPUTE if self.compute_ns >= self.memory_ns else Bound.MEMORY


def floor_of(problem: Problem, peaks: Peaks, cache: CacheState) -> Floor | None:
    """The floor of a problem, or None where no peak applies to it."""
    rate = peaks.flops.get(problem.dtype.value)
    compute = problem.flops() / rate * 1e9 if rate else 0.0
    memory = 0.0
    if peaks.bandwidth and (cache is CacheState.COLD or peaks.llc_bytes is not None):
        kept = 0 if cache is CacheState.COLD else peaks.llc_bytes or 0
        memory = max(0, must_read_bytes(problem) - kept) / peaks.bandwidth * 1e9
    return Floor(peaks.kind, compute, memory) if compute or memory else None


def must_read_bytes(problem: Problem) -> int:
    """Bytes of Q, K and V that any kernel must read: rows that see a key, and keys that a row sees.

    A lower bound: bias and scales are left out, and of paged sequences only the longest counts, because
    sequences may share pages.
    """
    spans = [_seen(problem, q, k) for q, k in zip(problem.query_lengths(), problem.key_lengths(), strict=True)]
    rows = sum(r for r, _ in spans)
    keys = max(k for _, k in spans) if problem.paged else sum(k for _, k in spans)
    q_bits = problem.heads * rows * problem.hdim * problem.dtype.bits
    columns = problem.hdim + (0 if problem.v_in_k else problem.hdim_v)
    return (q_bits + problem.kv_heads * keys * columns * problem.kv_bits) // 8


def _seen(problem: Problem, rows: int, keys: int) -> tuple[int, int]:
    """Rows that see at least one key, and keys that at least one row sees, of one sequence.

    Both are contiguous apart from the sink, because the window of row i + 1 is that of row i shifted by one.
    """
    seeing, in_window = (problem.mask.seeing(rows, keys, sink) for sink in (problem.sink, 0))
    if not seeing:
        return 0, 0
    end = min(keys, problem.mask.span(seeing[-1], rows, keys)[1])
    first = max(0, problem.mask.span(in_window[0], rows, keys)[0]) if in_window else end
    return len(seeing), end - first + min(problem.sink, first)


MARGIN = {PeakKind.MEASURED: 0.15, PeakKind.SPEC: 0.02}
"""How far a median may be below the floor, as a share, and still be believed. A measured peak depends on the clock and
the neighbours at the time of its measurement; the peak of a data sheet is an upper bound.
"""

FASTER_THAN_ROOFLINE = "M001"
"""Id of the Reason for an impossible time."""

CONTRADICTED = "M002"
"""Id of the Reason for a time that the host's clock contradicts (``execution.clock``)."""

FASTEST, FAR_BELOW = 0.05, 0.5
"""A spread is impossible too: the fastest twentieth of the samples must reach half of what the median must reach. Single
launches may be faster than a measured peak allows, because clocks rise for a moment."""


def impossible(samples_ns: Sequence[int], floor: Floor | None) -> Reason | None:
    """The reason why times cannot be true; None when they can. Such a row is MISTRUSTED.

    The median is what counts, and the fastest twentieth: a kernel that leaves work out of some launches only shows there.
    """
    if floor is None:
        return None
    least = floor.ns * (1 - MARGIN[floor.kind])
    middle, fast = median(samples_ns), sorted(samples_ns)[int(FASTEST * len(samples_ns))]
    if middle < least:
        found = f"the median, {duration(middle)}, is below"
    elif fast < least * FAR_BELOW:
        found = f"the fastest twentieth of the samples, {duration(fast)}, is far below"
    else:
        return None
    what = "FLOPs" if floor.bound is Bound.COMPUTE else "bytes"
    return Reason(
        FASTER_THAN_ROOFLINE,
        f"{found} the roofline floor of {duration(floor.ns)} ({floor.kind.value} peak, {what}): "
        "the kernel left work out, or the timer did",
        "compare with --cache cold; fmha validate; measure the peak again on an idle machine",
    )
