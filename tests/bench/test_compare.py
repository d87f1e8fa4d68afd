"""Ratios and A/B plans."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.bench.compare import Ratio, Regret, Speed, in_words
from fmha_cli.bench.sampling import AbSampler, SamplingPolicy, StopReason, ab_ratios, orders
from fmha_cli.domain.codec import from_json, to_json


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
        (around(1_001_000, 1, spread=0.2), [around(1_000_000, 2, spread=0.2)], None, False),
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


@pytest.mark.parametrize(
    ("speed", "ratio", "words"),
    [
        (Speed.FASTER, 0.875, "1.14x faster"),
        (Speed.FASTER, 0.0, "infx faster"),
        (Speed.SLOWER, 1.3, "1.30x slower"),
        (Speed.SAME, 1.004, "same speed"),
        (Speed.UNSURE, 1.04, "unsure (1.04x the time)"),
    ],
)
def test_a_factor_in_words_is_above_one(speed: Speed, ratio: float, words: str) -> None:
    assert in_words(speed, ratio) == words


@given(st.integers(0, 9), st.integers(1, 40))
def test_orders_mirror_each_other(seed: int, rounds: int) -> None:
    plan = orders(rounds, seed)
    assert len(plan) == rounds
    assert all(sorted(order) == [0, 1] for order in plan)
    assert all(a == b[::-1] for a, b in zip(plan[::2], plan[1::2], strict=False))
    assert orders(rounds, seed, start=rounds) == orders(2 * rounds, seed)[rounds:]


@given(st.integers(0, 9), st.integers(2, 40), st.integers(2, 5))
def test_orders_of_more_sides_mirror_each_other_too(seed: int, rounds: int, sides: int) -> None:
    plan = orders(2 * rounds, seed, sides=sides)
    assert all(sorted(order) == list(range(sides)) for order in plan)
    assert all(a == b[::-1] for a, b in zip(plan[::2], plan[1::2], strict=True))
    assert plan[3:] == orders(2 * rounds - 3, seed, start=3, sides=sides)


def test_sides_that_take_turns_stop_when_every_ratio_is_known() -> None:
    sampler = AbSampler(SamplingPolicy(budget_ns=10**12, min_samples=10))
    quiet, noisy = [1_000_000] * 30, [1_000_000, 2_000_000] * 15
    assert sampler.stop(quiet, quiet, quiet) is StopReason.CONVERGED
    assert sampler.stop(quiet, quiet, noisy) is None
    assert sampler.stop(quiet, noisy) is None
    assert sampler.next_rounds(quiet, quiet, noisy) > 0
    with pytest.raises(ValueError, match="30 and 30 and 1"):
        sampler.stop(quiet, quiet, [1])


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
