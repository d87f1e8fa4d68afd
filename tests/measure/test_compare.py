"""Ratios, A/B plans and baselines."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.measure.ab import AbSampler, ab_ratios, orders
from fmha_cli.measure.baseline import Baseline, load_baseline
from fmha_cli.measure.compare import Ratio, Regret, Speed
from fmha_cli.measure.measurement import Measurement
from fmha_cli.measure.sampling import SamplingPolicy, StopReason
from fmha_cli.report.record import Record


def around(middle: int, seed: int, count: int = 30, spread: float = 0.01) -> list[int]:
    draw = random.Random(seed)
    return [int(draw.gauss(middle, middle * spread)) for _ in range(count)]


@pytest.mark.parametrize(
    ("mine", "speed", "text"),
    [
        (1_300_000, Speed.SLOWER, "1.31x slower (1.30-1.31) than X"),
        (770_000, Speed.FASTER, "1.29x faster (1.29-1.30) than X"),
        (1_001_000, Speed.SAME, "the same speed as X (time ratio"),
    ],
)
def test_speed(mine: int, speed: Speed, text: str) -> None:
    ratio = Ratio.of(around(mine, 1), around(1_000_000, 2), against="X", paired=False)
    assert ratio.speed is speed
    assert ratio.text.startswith(text)
    assert from_json(Ratio, json.loads(json.dumps(to_json(ratio)))) == ratio


def test_few_samples_are_never_sure() -> None:
    ratio = Ratio.of([100], [50], against="X", paired=False)
    assert ratio.ratio_ci95 is None
    assert ratio.speed is Speed.UNSURE
    assert "no sure difference" in ratio.text


@pytest.mark.parametrize(
    ("default", "others", "value", "sure"),
    [
        (around(1_300_000, 1), [around(1_000_000, 2), around(1_200_000, 3)], 0.3, True),
        (around(1_005_000, 1, spread=0.2), [around(1_000_000, 2, spread=0.2)], None, False),
        (around(1_000_000, 1), [around(1_300_000, 2)], 0.0, True),
        ([1300] * 5, [[1000] * 30], 0.3, False),
    ],
)
def test_regret_has_an_interval(default: list[int], others: list[list[int]], value: float | None, sure: bool) -> None:
    regret = Regret.of(default, others)
    assert value is None or regret.value == pytest.approx(value, abs=0.02)
    low, high = regret.ci95 or (-1.0, 1.0)
    assert low <= regret.value <= high
    assert (low > 0 or (low, high) == (0, 0)) is sure


@given(st.integers(0, 9), st.integers(1, 40))
def test_orders_mirror_each_other(seed: int, rounds: int) -> None:
    plan = orders(rounds, seed)
    assert len(plan) == rounds
    assert all(sorted(order) == [0, 1] for order in plan)
    assert all(a == b[::-1] for a, b in zip(plan[::2], plan[1::2], strict=False))
    assert orders(rounds, seed, start=rounds) == orders(2 * rounds, seed)[rounds:]


def play(policy: SamplingPolicy, a: int, b: int, spread: float) -> tuple[list[int], list[int]]:
    draw = random.Random(3)
    sampler = AbSampler(policy)
    first: list[int] = []
    second: list[int] = []
    while rounds := sampler.next_rounds(first, second):
        for _ in range(rounds):
            noise = draw.uniform(1, 1.5)
            first.append(int(a * noise * draw.gauss(1, spread)))
            second.append(int(b * noise * draw.gauss(1, spread)))
    return first, second


def test_ab_finds_a_small_difference_under_shared_noise() -> None:
    policy = SamplingPolicy(budget_ns=10**12)
    a, b = play(policy, 1_060_000, 1_000_000, 0.002)
    assert AbSampler(policy).stop(a, b) in (StopReason.CONVERGED, StopReason.MAX_SAMPLES)
    warm = AbSampler(policy).warmup(a, b) or 0
    mine, other = ab_ratios(a[warm:], b[warm:], ("A", "B"))
    assert mine.speed is Speed.SLOWER
    assert other.speed is Speed.FASTER
    assert mine.against == "B"
    assert mine.ratio_ci95 is not None
    assert mine.ratio_ci95[0] < 1.06 < mine.ratio_ci95[1]


def test_ab_ends_with_the_budget() -> None:
    policy = SamplingPolicy(budget_ns=40_000_000)
    a, b = play(policy, 1_000_000, 1_000_000, 0.3)
    assert AbSampler(policy).stop(a, b) is StopReason.BUDGET
    assert sum(a) + sum(b) < 1.3 * policy.budget_ns
    with pytest.raises(ValueError, match="unequal"):
        AbSampler(policy).stop([1], [])


def row(middle: int, seed: int, seqlen: int = 64, kernel: str | None = None, cache: str = "hot") -> dict[str, object]:
    problem = Problem.of(seqlen=seqlen)
    record = Record(
        problem=problem.to_dict(),
        repro="fmha bench",
        verdict=Verdict.PASSED,
        measurement=Measurement(
            launches=tuple((t,) for t in around(middle, seed)), flops=problem.flops(), bytes=problem.bytes()
        ),
    ).to_dict()
    record["measurement"]["cache"] = cache
    record["kernel"] = None if kernel is None else {"name": kernel}
    return record


def saved(path: Path, rows: list[dict[str, object]], *, lines: bool = False) -> Baseline:
    document = {"schema": "fmha.report/1", "records": rows}
    path.write_text("\n".join(map(json.dumps, rows)) + "\n" if lines else json.dumps(document))
    return load_baseline(path)


@pytest.mark.parametrize("lines", [False, True])
def test_baseline_finds_a_regression(tmp_path: Path, lines: bool) -> None:
    base = saved(tmp_path / "old.json", [row(1_000_000, 1), row(5_000_000, 2, seqlen=128)], lines=lines)
    slower, same = base.ratio(row(1_200_000, 3)), base.ratio(row(1_020_000, 4))
    assert slower is not None
    assert slower.speed is Speed.SLOWER
    assert slower.against == "old.json"
    assert same is not None
    assert same.speed is Speed.SAME
    assert base.ratio(row(1, 1, seqlen=99)) is None
    assert base.ratio(row(1_000_000, 1, cache="cold")) is None


def test_baseline_of_several_kernels_goes_by_name(tmp_path: Path) -> None:
    base = saved(tmp_path / "old.json", [row(1_000_000, 1, kernel="a"), row(2_000_000, 2, kernel="b")])
    assert base.ratio(row(3, 1, kernel="c")) is None
    found = base.ratio(row(2_000_000, 3, kernel="b"))
    assert found is not None
    assert found.speed is Speed.SAME


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        '{"schema": "fmha.report/1", "records": []}',
        '{"schema": "fmha.record/1"}',
        '{"schema": "fmha.report/1", "records": [{"schema": "other"}]}',
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="--baseline"):
        load_baseline(path)


def test_a_missing_baseline_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--baseline"):
        load_baseline(tmp_path / "none.json")
