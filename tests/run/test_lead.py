"""Launches before an interleaved sample: a kernel of another backend, or a rest, must not slow it down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fmha_cli import api
from fmha_cli.bench.sampling import SamplingPolicy
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run import execute, timing
from fmha_cli.run.timing import LEAD_NS, LONG_NS, MOST_LEADING, leading, sample, sample_turns
from tests.support.fixtures.trio import trio

__all__ = ["trio"]

POLICY = SamplingPolicy(budget_ns=1, max_ns=10**12, min_samples=10)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The host's clock, which the modelled machine moves."""
    now = [0]
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: now[0])
    return now


@pytest.mark.promise("A kernel's own launches lead its samples, so interleaving does not change its time.")
def test_the_samples_of_a_kernel_alone_are_led_within_its_budget(clock: list[int]) -> None:
    policy = SamplingPolicy(budget_ns=10**9, min_samples=10)
    for ns, count in ((4_000_000, 7), (20_000, 1000), (10**9, 1)):
        machine = Machine(clock, wakes_ns=20_000_000, slower=1.25)
        timed = sample(machine.kernel(0, ns), policy, lead=True)
        if ns < 10**9:
            assert {sum(launch) for launch in timed.launches} == {ns}
        assert timed.warmup >= count
    machine = Machine(clock, wakes_ns=20_000_000, slower=1.25)
    assert {sum(launch) for launch in sample(machine.kernel(0, 20_000), policy).launches} == {25_000}, (
        "converged asleep"
    )
    machine = Machine(clock, wakes_ns=20_000_000, slower=1.25)
    sample(machine.kernel(0, 1_000_000), SamplingPolicy(budget_ns=10**7), lead=True)
    assert machine.counts[:2] == [(0, 1), (0, 1)], "two of ten milliseconds, each launch 1.25"


class Machine:
    """One processor whose wide units fall asleep while another kernel runs, and wake up over some time of one kernel's own launches."""

    def __init__(self, clock: list[int], wakes_ns: int, slower: float) -> None:
        self.clock = clock
        self.wakes_ns, self.slower = wakes_ns, slower
        self.last, self.awake_ns = -1, 0
        self.counts: list[tuple[int, int]] = []

    def kernel(self, number: int, ns: int) -> Callable[[int], tuple[tuple[int, ...], ...]]:
        """A launcher of a kernel that takes so long where all units are awake."""

        def launch(count: int) -> tuple[tuple[int, ...], ...]:
            self.counts.append((number, count))
            self.awake_ns = self.awake_ns if number == self.last else 0
            self.last, found = number, []
            for _ in range(count):
                took = ns if self.awake_ns >= self.wakes_ns else int(ns * self.slower)
                self.awake_ns += took
                self.clock[0] += took
                found.append((took,))
            return tuple(found)

        return launch


@pytest.mark.promise("A kernel's own launches lead its samples, so interleaving does not change its time.")
def test_a_sample_in_turns_is_that_of_the_kernel_alone(clock: list[int]) -> None:
    times = 4_000_000, 8_000_000, 45_000_000
    machine = Machine(clock, wakes_ns=25_000_000, slower=1.25)
    sides = [machine.kernel(number, ns) for number, ns in enumerate(times)]
    led = sample_turns(sides, POLICY, seed=1, lead=True)
    assert [{sum(launch) for launch in side.launches} for side in led] == [{ns} for ns in times]
    plain = sample_turns(sides, POLICY, seed=1)
    assert all(
        int(1.25 * ns) in {sum(launch) for launch in side.launches} for side, ns in zip(plain, times, strict=True)
    )


@pytest.mark.promise("A kernel's own launches lead its samples, so interleaving does not change its time.")
@pytest.mark.usefixtures("trio")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("options", "led"),
    [({"backend": "one,two"}, True), ({"backend": "one,two", "cache": "cold"}, False), ({"ab": True}, False)],
)
def test_backends_are_led_and_the_sides_of_ab_are_not(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], led: bool
) -> None:
    seen: list[bool] = []
    real = execute.sample_turns

    def watched(*given: Any, lead: bool) -> Any:
        seen.append(lead)
        return real(*given, lead=lead)

    monkeypatch.setattr(execute, "sample_turns", watched)
    if "ab" in options:
        (digest, *_) = [kernel.digest for kernel in api.list_kernels("null", backend="one")]
        options = {"backend": "one", "ab": (digest, digest)}
    records = api.run(
        api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32"), command="bench", budget_s=0.02, peak="spec", **options
    )
    assert {record.verdict for record in records} == {Verdict.PASSED}
    assert seen == [led]


@pytest.mark.promise("A kernel's own launches lead its samples, so interleaving does not change its time.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("slow", "cache", "led"), [(False, "hot", True), (True, "hot", False), (False, "cold", False)])
def test_a_kernel_alone_is_led_unless_its_launches_are_long_or_cold(
    monkeypatch: pytest.MonkeyPatch, slow: bool, cache: str, led: bool
) -> None:
    seen: list[bool] = []
    real = execute.sample

    def watched(*given: Any, lead: bool) -> Any:
        seen.append(lead)
        return real(*given, lead=lead)

    monkeypatch.setattr(execute, "sample", watched)
    monkeypatch.setattr(execute, "LONG_NS", 0 if slow else LONG_NS)
    api.run(
        api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32"), command="bench", budget_s=0.02, backend="null", cache=cache
    )
    assert seen == [led]


def test_without_a_lead_each_kernel_is_launched_once_a_turn(clock: list[int]) -> None:
    machine = Machine(clock, wakes_ns=0, slower=1.0)
    sample_turns([machine.kernel(0, 10**6), machine.kernel(1, 10**6)], POLICY, seed=1)
    assert {count for _, count in machine.counts} == {1}


@pytest.mark.parametrize(
    ("each_ns", "count"),
    [(None, 0), (LEAD_NS, 1), (LEAD_NS // 4, 4), (LEAD_NS // 3 + 1, 3), (1, MOST_LEADING), (LONG_NS + 1, 0)],
)
def test_the_number_of_leading_launches(each_ns: int | None, count: int) -> None:
    assert leading(each_ns) == count


def test_a_lead_ends_by_the_hosts_clock_whatever_the_kernel_reports(clock: list[int]) -> None:
    """A session may leave most of a launch out of its time: its copies, for example."""
    counts: list[int] = []

    def launch(count: int) -> tuple[tuple[int, ...], ...]:
        counts.append(count)
        clock[0] += count * 5_000_000
        return ((1,),) * count

    sample(launch, SamplingPolicy(budget_ns=10**9), lead=True)
    assert sum(counts[:4]) == LEAD_NS // 5_000_000
