"""The stopping rule, tested with simulated kernels."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.bench.sampling import SETTLED, Sampler, SamplingPolicy, StopReason, sanity_notes
from fmha_cli.bench.stats import relative_width


def play(policy: SamplingPolicy, kernel: Callable[[int], int], extra: int = 0) -> tuple[list[int], list[int]]:
    """All samples and the batches of a run; ``extra`` is overhead per launch (cold timing)."""
    sampler, samples, batches = Sampler(policy), [], []
    while batch := sampler.next_batch(samples, sum(samples) + extra * len(samples)):
        batches.append(batch)
        samples += [kernel(len(samples) + i) for i in range(batch)]
        assert len(samples) <= policy.warmup_max + policy.max_samples + 1
    return samples, batches


def noisy(middle: int, spread: float, seed: int = 0) -> Callable[[int], int]:
    draw = random.Random(seed)
    return lambda i: max(1, int(draw.gauss(middle, middle * spread)))


def test_a_steady_kernel_converges_at_once() -> None:
    samples, _ = play(SamplingPolicy(), noisy(100_000, 0.001))
    sampler = Sampler()
    assert sampler.stop(samples) is StopReason.CONVERGED
    assert len(sampler.counted(samples)) == SamplingPolicy().min_samples


def test_a_slow_first_launch_does_not_add_samples_beyond_a_small_budget() -> None:
    """The first launch is slow, so the first batch has fewer launches than are wanted: the next one has the rest, no more."""
    policy = SamplingPolicy(budget_ns=1, batch_ns=200)
    samples, batches = play(policy, lambda i: 25 if i == 0 else 10 + 9 * (i % 2))
    assert batches[:2] == [1, 8]
    sampler = Sampler(policy)
    assert (sampler.stop(samples), len(sampler.counted(samples))) == (StopReason.BUDGET, policy.min_samples)


@pytest.mark.promise("Sampling stops where the rule says, which is a function of the samples alone.")
def test_noise_takes_more_samples_until_the_interval_is_narrow() -> None:
    samples, _ = play(SamplingPolicy(budget_ns=10**12), noisy(100_000, 0.05))
    sampler = Sampler()
    kept = sampler.counted(samples)
    assert len(kept) > 20
    assert relative_width(kept) <= 0.02


def test_hopeless_noise_ends_with_the_budget_or_the_count() -> None:
    policy = SamplingPolicy(budget_ns=10**12, max_samples=64)
    samples, _ = play(policy, noisy(1_000_000, 0.5))
    assert Sampler(policy).stop(samples) is StopReason.MAX_SAMPLES
    assert len(Sampler(policy).counted(samples)) == 64
    policy = SamplingPolicy(budget_ns=50_000_000)
    samples, _ = play(policy, noisy(1_000_000, 0.5))
    assert Sampler(policy).stop(samples) is StopReason.BUDGET
    assert sum(samples) < 1.2 * policy.budget_ns


@pytest.mark.promise("Sampling stops where the rule says, which is a function of the samples alone.")
@pytest.mark.parametrize("each", [2 * 10**9, 700_000_000, 400_000_000])
def test_the_budget_counts_from_enough_samples_on(each: int) -> None:
    """A kernel that uses the budget up with one launch still gets the samples that an interval needs."""
    policy = SamplingPolicy(budget_ns=10**8, rel_ci=0)
    samples, _ = play(policy, lambda i: each + i)
    sampler = Sampler(policy)
    assert len(sampler.counted(samples)) == policy.min_samples
    assert sampler.stop(samples) is StopReason.BUDGET


@pytest.mark.promise("Sampling stops where the rule says, which is a function of the samples alone.")
@pytest.mark.parametrize(("each", "counted"), [(10**11, 1), (30 * 10**9, 1), (16 * 10**9, 1), (10 * 10**9, 2)])
def test_the_slowest_kernel_gets_a_sample(each: int, counted: int) -> None:
    policy = SamplingPolicy(budget_ns=2 * 10**9, max_ns=30 * 10**9)
    samples, _ = play(policy, lambda i: each)
    sampler = Sampler(policy)
    assert len(sampler.counted(samples)) == counted
    assert sampler.stop(samples) is StopReason.MAX_TIME
    assert sum(samples) <= max(each, policy.max_ns + each)


def test_a_short_longest_time_is_a_limit_before_the_budget() -> None:
    policy = SamplingPolicy(budget_ns=10**10, max_ns=10**8, rel_ci=0)
    samples, _ = play(policy, noisy(10**7, 0.5))
    assert Sampler(policy).stop(samples) is StopReason.MAX_TIME
    assert sum(samples) < 2 * 10**8


def test_warmup_ends_when_launches_agree() -> None:
    slow_start = [900, 500, 300, 105, 100, 101, 102] + [100] * 30
    samples, _ = play(SamplingPolicy(), lambda i: slow_start[i])
    assert Sampler().warmup(samples) == 6
    assert max(Sampler().counted(samples)) == 102


def test_warmup_ends_after_its_most_launches() -> None:
    policy = SamplingPolicy(warmup_max=10)
    assert Sampler(policy).warmup([100 * 2 ** (i % 2) for i in range(10)]) == 10


def test_no_warmup_on_request() -> None:
    policy = SamplingPolicy(warmup_min=0, warmup_max=0)
    assert Sampler(policy).warmup([]) == 0
    samples, batches = play(policy, lambda i: 100)
    assert len(samples) == policy.min_samples
    assert batches[0] == 1


def test_batches_grow_geometrically() -> None:
    policy = SamplingPolicy(budget_ns=10**15, rel_ci=0, max_samples=1000, batch_ns=10**15, warmup_max=3)
    _, batches = play(policy, noisy(1000, 0.2))
    counts = [sum(batches[: i + 1]) for i in range(len(batches))]
    looks = [c for c in counts if c > 60]
    assert all(later / earlier > 1.3 for earlier, later in pairwise(looks[:-1]))
    assert len(looks) < 12


def test_a_batch_is_no_longer_than_it_may() -> None:
    policy = SamplingPolicy(batch_ns=1_000_000, budget_ns=10**12)
    _, batches = play(policy, noisy(400_000, 0.3))
    assert max(batches) <= 3


def test_overhead_between_launches_counts_against_the_budget() -> None:
    policy = SamplingPolicy(budget_ns=10**9, rel_ci=0)
    samples, _ = play(policy, noisy(1_000_000, 0.1), extra=20_000_000)
    assert 30 <= len(samples) <= policy.warmup_max + policy.min_samples + 5


@given(st.lists(st.integers(1, 10**9), max_size=80), st.integers(1, 10**10))
def test_decisions_rest_on_what_was_seen(samples: list[int], budget: int) -> None:
    """Once complete, the warm-up does not change; a batch is never negative; and 0 comes with a reason."""
    policy = SamplingPolicy(budget_ns=budget)
    sampler = Sampler(policy)
    warm = None
    for end in range(len(samples) + 1):
        now = sampler.warmup(samples[:end])
        assert warm is None or now == warm
        warm = now
        batch = sampler.next_batch(samples[:end])
        assert batch >= 0
        assert (batch == 0) == (sampler.stop(samples[:end]) is not None)
    assert warm is None or warm <= policy.warmup_max


@given(st.integers(1, 10**8), st.floats(0, 0.6), st.integers(0, 99))
def test_it_always_ends(middle: int, spread: float, seed: int) -> None:
    policy = SamplingPolicy(budget_ns=10**9, max_samples=200)
    samples, batches = play(policy, noisy(middle, spread, seed))
    assert Sampler(policy).stop(samples) is not None
    assert len(Sampler(policy).counted(samples)) <= 200
    assert len(batches) < 120


@pytest.mark.parametrize(
    "change", [{"min_samples": 0}, {"max_samples": 5}, {"growth": 1.0}, {"budget_ns": 0}, {"max_ns": 0}]
)
def test_a_policy_that_contradicts_itself_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="contradicts"):
        SamplingPolicy(**change)  # type: ignore[arg-type]


def test_notes_tell_of_outliers_and_drift() -> None:
    steady = [100 + i % 3 for i in range(30)]
    assert sanity_notes(steady) == ()
    assert sanity_notes([*steady, 100_000])[0].startswith("1 of 31 samples is an outlier (slowest 990")
    assert sanity_notes([*steady, 2, 3])[0] == "2 of 32 samples are outliers (fastest 0.02x the median)"
    assert "drifted by +" in sanity_notes([100 + i for i in range(60)])[0]
    assert sanity_notes([]) == ()
    assert SETTLED >= 2
