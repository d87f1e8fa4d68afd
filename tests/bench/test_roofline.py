"""The roofline floor: it never exceeds the time that a kernel needs, and times below it are rejected."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.bench.roofline import (
    MARGIN,
    Bound,
    CacheState,
    PeakKind,
    Peaks,
    floor_of,
    impossible,
    must_read_bytes,
)
from fmha_cli.domain.mask import parse_mask
from fmha_cli.domain.problem import Problem
from tests.support.generators.strategies import problems

PEAKS = Peaks(kind=PeakKind.MEASURED, flops={"fp32": 5e11, "bf16": 1e12}, bandwidth=5e10, llc_bytes=32 << 20)
MASKS = ["none", "causal", "causal-tl", "window:3,2", "window-tl:0,5", "window:7,-1", "generic:3,2", "generic:0,0"]


def seen(mask: str, rows: int, keys: int, sink: int) -> tuple[int, int]:
    form, _ = parse_mask(mask)
    pairs = [(i, j) for i in range(rows) for j in range(keys) if form.visible(i, j, rows, keys, sink)]
    return len({i for i, _ in pairs}), len({j for _, j in pairs})


@settings(max_examples=300)
@given(st.sampled_from(MASKS), st.integers(1, 14), st.integers(0, 14), st.integers(0, 4))
def test_must_read_is_what_some_pair_needs(mask: str, rows: int, keys: int, sink: int) -> None:
    p = Problem.of(
        heads=4, kv_heads=2, seqlen=rows, seqlen_k=keys, hdim=8, hdim_v=4, mask=mask, sink=sink, dtype="fp32"
    )
    r, k = seen(mask, rows, keys, p.sink)
    assert must_read_bytes(p) == (4 * r * 8 + 2 * k * (8 + 4)) * 4


@given(problems())
def test_must_read_is_at_most_every_tensor_once(problem: Problem) -> None:
    assert 0 <= must_read_bytes(problem) <= problem.bytes()


def test_compute_bound_and_memory_bound() -> None:
    prefill = floor_of(Problem.of(seqlen="4k", dtype="fp32"), PEAKS, CacheState.COLD)
    decode = floor_of(Problem.of(seqlen=1, seqlen_k="64k", dtype="fp32"), PEAKS, CacheState.COLD)
    assert prefill is not None
    assert decode is not None
    assert prefill.bound is Bound.COMPUTE
    assert decode.bound is Bound.MEMORY
    assert prefill.ns == pytest.approx(Problem.of(seqlen="4k", dtype="fp32").flops() / 5e11 * 1e9)


def test_a_hot_cache_holds_what_fits_in_it() -> None:
    p = Problem.of(seqlen=1, seqlen_k="64k", dtype="fp32")
    cold, hot = (floor_of(p, PEAKS, cache) for cache in (CacheState.COLD, CacheState.HOT))
    assert cold is not None
    assert hot is not None
    assert cold.memory_ns - hot.memory_ns == pytest.approx((32 << 20) / 5e10 * 1e9)
    unknown = Peaks(kind=PeakKind.SPEC, bandwidth=5e10)
    assert floor_of(p, unknown, CacheState.HOT) is None


def test_without_a_peak_there_is_no_floor() -> None:
    assert (
        floor_of(Problem.of(dtype="fp16"), Peaks(kind=PeakKind.MEASURED, flops={"fp32": 1e9}), CacheState.HOT) is None
    )


@pytest.mark.parametrize("kind", list(PeakKind))
def test_an_impossible_time_has_a_reason(kind: PeakKind) -> None:
    peaks = Peaks(kind=kind, flops={"fp16": 1e12})
    floor = floor_of(Problem.of(), peaks, CacheState.HOT)
    assert floor is not None
    limit = floor.ns * (1 - MARGIN[kind])
    assert impossible([int(limit) + 1], floor) is None
    reason = impossible([int(limit) - 1], floor)
    assert reason is not None
    assert reason.id == "M001"
    assert kind.value in reason.text
    assert impossible([0], None) is None


@pytest.mark.parametrize(("low", "believed"), [(0, True), (1, False), (4, False)])
def test_a_spread_of_impossible_times_is_not_believed(low: int, believed: bool) -> None:
    """The median is possible, but some launches took no time."""
    floor = floor_of(Problem.of(), Peaks(kind=PeakKind.MEASURED, flops={"fp16": 1e12}), CacheState.HOT)
    assert floor is not None
    samples = [1] * low + [int(2 * floor.ns)] * (10 - low)
    reason = impossible(samples, floor)
    assert (reason is None) is believed
    assert reason is None or "the fastest twentieth" in reason.text
    assert impossible([int(floor.ns * 0.6)] + [int(floor.ns)] * 9, floor) is None, "a clock may rise for a moment"
