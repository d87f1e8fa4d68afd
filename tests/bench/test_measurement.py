"""``Measurement``: summaries follow from the samples, and the JSON form converts back to an equal object."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.bench.measurement import Measurement, Noise, measurement_of
from fmha_cli.bench.roofline import CacheState, Floor, PeakKind, Peaks
from fmha_cli.bench.sampling import StopReason
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.problem import Problem

times = st.integers(0, 10**11)


@st.composite
def measurements(draw: st.DrawFn) -> Measurement:
    stages = draw(st.integers(1, 3))
    launches = draw(st.lists(st.tuples(*[times] * stages), min_size=1, max_size=12))
    floor = st.builds(Floor, st.sampled_from(PeakKind), st.floats(0, 1e12), st.floats(0, 1e12))
    return Measurement(
        launches=tuple(launches),
        flops=draw(times),
        bytes=draw(times),
        cache=draw(st.sampled_from(CacheState)),
        threads=draw(st.integers(0, 64)),
        warmup=draw(st.integers(0, 9)),
        stop=draw(st.sampled_from(StopReason)),
        dense=draw(st.booleans()),
        floor=draw(st.none() | floor),
    )


@given(measurements())
def test_round_trip(measurement: Measurement) -> None:
    text = json.dumps(to_json(measurement), allow_nan=False)
    assert from_json(Measurement, json.loads(text)) == measurement


def test_summaries() -> None:
    m = Measurement(
        launches=((1000, 10), (3000, 30), (2000, 20)),
        flops=4_040_000,
        bytes=20_200,
        floor=Floor(PeakKind.MEASURED, 505.0, 100.0),
    )
    assert m.samples_ns == (1010, 3030, 2020)
    assert m.median_ns == 2020
    assert m.stage_medians_ns == (2000, 20)
    assert m.tflops == pytest.approx(2)
    assert m.gbps == pytest.approx(10)
    assert m.peak_fraction == pytest.approx(0.25)
    assert m.ci95_ns is None
    assert to_json(m)["stage_samples_ns"] == [[1000, 3000, 2000], [10, 30, 20]]


def test_one_launch_has_no_interval_and_no_peak() -> None:
    m = Measurement(launches=((5,),), flops=1, bytes=1)
    data = to_json(m)
    assert data["ci95_ns"] is None
    assert data["peak_fraction"] is None
    assert data["stage_samples_ns"] is None
    assert data["stop"] == "single"


@pytest.mark.parametrize("launches", [(), ((),), ((1,), (1, 2))])
def test_launches_must_agree(launches: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="launches"):
        Measurement(launches=launches, flops=1, bytes=1)


def test_a_measurement_holds_the_problems_work() -> None:
    problem = Problem.of(causal=True)
    peaks = Peaks(kind=PeakKind.SPEC, flops={"fp16": 1e12})
    launches = [(101, 1)] * 12
    m = measurement_of(problem, launches, warmup=4, stop=StopReason.CONVERGED, threads=2, peaks=peaks)
    assert (m.warmup, m.stop) == (4, StopReason.CONVERGED)
    assert m.launches == tuple(launches)
    assert m.floor is not None
    assert m.flops == problem.flops()
    assert measurement_of(problem, launches, dense=True).flops == problem.flops(dense=True)
    assert measurement_of(problem, launches[:1]).stop is StopReason.SINGLE


@pytest.mark.parametrize(
    ("samples", "noise"),
    [
        ([100], Noise.FEW),
        ([100] * 5, Noise.FEW),
        ([100] * 6, None),
        ([97, 98, 99, 100, 101, 102, 103], None),
        ([90, 92, 95, 100, 105, 108, 110], Noise.WIDE),
        ([100, 100, 100, 184, 190, 260, 270], Noise.WIDE),
    ],
)
def test_samples_that_say_little_are_marked(samples: list[int], noise: Noise | None) -> None:
    m = Measurement(launches=tuple((sample,) for sample in samples), flops=1, bytes=1)
    assert m.noise is noise
    assert to_json(m)["noise"] == (noise.value if noise else None)
