"""The search: how often it finds the fastest kernel and how many samples that takes, under clean and under recorded noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import mean

import pytest

from fmha_cli.bench.search import ArmSampler, Method, OutOfTime, Policy, SearchResult, Stop, level, search
from tests.support.models.noise import TRUE, Clean, Recorded, regret

SEEDS = range(40)
ALL = len(TRUE) * Policy().most
Make = Callable[[int, Sequence[float]], ArmSampler]


def played(make: Make, method: Method) -> tuple[float, float]:
    """Mean regret and mean share of all samples, over seeded orders of the kernels."""
    regrets, shares = [], []
    for seed in SEEDS:
        true = list(TRUE)
        random.Random(seed).shuffle(true)
        found = search(len(true), make(seed, true), method)
        regrets.append(regret(found.order, true))
        shares.append(found.taken / ALL)
    return mean(regrets), mean(shares)


@pytest.mark.promise("`fmha tune` remembers the fastest kernel, and `run`, `validate`, `bench` and sweeps choose it.")
@pytest.mark.parametrize(("method", "most"), [(Method.HALVING, 0.31), (Method.RACE, 0.60), (Method.EXHAUSTIVE, 1.0)])
def test_clean_noise(method: Method, most: float) -> None:
    lost, share = played(lambda seed, true: Clean(seed, true), method)
    assert lost <= 0.005
    assert share <= most


def test_recorded_noise() -> None:
    """What two threads on a busy machine showed: a third of the samples costs regret that all samples do not cost."""

    def recorded(seed: int, true: Sequence[float]) -> ArmSampler:
        return Recorded(seed, "busy, 2 threads", true)

    lost, share = played(recorded, Method.HALVING)
    lost_by_all, _ = played(recorded, Method.EXHAUSTIVE)
    assert share <= 0.31
    assert lost_by_all <= lost <= 0.05
    quiet, _ = played(lambda seed, true: Recorded(seed, "quiet, 1 thread", true), Method.HALVING)
    assert quiet <= 0.002


def test_samples_double_and_half_goes() -> None:
    found = search(16, Clean(1, [1000.0 + place for place in range(16)]), Method.HALVING, Policy(confidence=1 - 1e-9))
    sizes = [len(alive) for alive in found.rounds]
    assert sizes == [16, 8, 4, 2]
    assert sorted({len(samples) for samples in found.samples}) == [10, 20, 40, 80]
    assert set(found.order) == set(range(16))
    assert found.order[0] in found.rounds[-1]


def test_what_is_surely_slower_goes_at_once() -> None:
    found = search(8, Clean(1, [1000.0, *[4000.0] * 7]))
    assert found.order[0] == 0  # halving alone would need a third round
    assert (found.stop, len(found.rounds)) == (Stop.ONE_LEFT, 2)


def test_visits_take_turns_from_both_ends() -> None:
    sampler = Clean(1, [1000.0, 1000.0, 1000.0])
    search(3, sampler, Method.EXHAUSTIVE, Policy(first=10, most=10, visit=5))
    assert sampler.taken == [(0, 5), (1, 5), (2, 5), (2, 5), (1, 5), (0, 5)]


class Limited(Clean):
    """Time for so many calls; the kernels of ``broken`` fail at their second one."""

    calls = 0
    most = 10**9
    broken: frozenset[int] = frozenset()

    def take(self, arm: int, count: int) -> list[int]:
        self.calls += 1
        if self.calls > self.most:
            raise OutOfTime
        earlier = any(arm == other for other, _ in self.taken)
        found = super().take(arm, count)
        return [] if arm in self.broken and earlier else found


def searched(most: int = 10**9, broken: frozenset[int] = frozenset(), method: Method = Method.HALVING) -> SearchResult:
    sampler = Limited(3)
    sampler.most, sampler.broken = most, broken
    return search(len(TRUE), sampler, method)


@pytest.mark.parametrize("method", Method)
def test_a_budget_ends_the_search_and_keeps_what_was_measured(method: Method) -> None:
    found = searched(most=30, method=method)
    assert found.stop is Stop.BUDGET
    assert found.taken == 30 * Policy().visit
    assert set(found.order) == {arm for arm, samples in enumerate(found.samples) if samples}
    assert level(found.samples[found.order[0]]) <= level(found.samples[found.order[1]])


@pytest.mark.parametrize("method", Method)
def test_a_kernel_that_fails_is_never_chosen(method: Method) -> None:
    found = searched(broken=frozenset({0, 1}), method=method)
    assert not {0, 1} & set(found.order)
    assert found.samples[0] == ()


def test_one_kernel_needs_one_round() -> None:
    found = search(1, Clean(1))
    assert (found.order, found.stop, found.taken) == ((0,), Stop.ONE_LEFT, 10)


def test_no_kernels_and_senseless_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="no kernels"):
        search(0, Clean(1))
    with pytest.raises(ValueError, match="contradicts"):
        Policy(first=20, most=10)
