"""Launching a row that is being timed: one kernel until its times are known, or several interleaved ones until their
ratios are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fmha_cli.bench.conditions import Ceiling, ProcessorConditions
from fmha_cli.bench.sampling import AbSampler, Sampler, SamplingPolicy, StopReason, orders
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.job import JobResult

Launch = Callable[[int], tuple[tuple[int, ...], ...]]
"""Launches n times in a row: nanoseconds per launch and stage. See ``Launcher`` for its exceptions."""


LEAD_NS = 30_000_000
"""How long a kernel runs, uncounted, before its samples, and before each sample that is interleaved with other
backends' samples. After tens of milliseconds of other work a matrix kernel takes up to a quarter longer on some
processors and needs about as long to come back, whatever the caches hold (results/comparing.md).
"""

MOST_LEADING = 1000
"""Launches before a counted one at most, however short they are."""

_LEAD_SHARE = 5
"""What leads the samples of a kernel alone takes a fifth of the budget at most, as warm-up does."""

LED_ROUNDS = 5
"""Rounds of warm-up at most where launches lead each sample: those launches warm the kernel."""

LONG_NS = 10 * LEAD_NS
"""Launches that take longer hold the slow beginning themselves, and it counts for little."""


@dataclass(frozen=True)
class Timed:
    """The counted launches of a row, and how sampling went."""

    launches: tuple[tuple[int, ...], ...]
    warmup: int = 0
    stop: StopReason = StopReason.SINGLE
    processes: tuple[int, ...] | None = None
    """The number of the process of each launch; None if there was one."""
    ceiling: Ceiling | None = None
    conditions: ProcessorConditions | None = None


class Mistimed(Exception):
    """The times of launches cannot be true."""


class RowFailed(Exception):
    """A launch of a row that is being timed did not survive."""

    def __init__(self, verdict: Verdict, note: str, log: str) -> None:
        super().__init__(note)
        self.verdict = verdict
        self.log = log


class Launcher:
    """Launches a job that is being timed, and keeps the host's own account of it."""

    def __init__(self, run: Callable[[int], JobResult]) -> None:
        self._run = run
        self.totals_ns: list[int] = []
        """Reported nanoseconds of each launch, all stages together."""
        self.waited_ns: list[int] = []
        """Nanoseconds that the host waited for each launch."""
        self.mistimed: str | None = None
        """Why the times cannot be true."""
        self.failed: RowFailed | None = None
        """Why a launch did not survive."""

    def __call__(self, count: int) -> tuple[tuple[int, ...], ...]:
        """Launch ``count`` times in a row: nanoseconds per launch and stage.

        Raises:
            RowFailed: the kernel did not survive.
            Mistimed: the times cannot be true.
        """
        result = self._run(count)
        if result.verdict is not None:
            self.failed = RowFailed(result.verdict, result.note or result.verdict.value, result.log_tail)
        elif result.distrust:
            self.failed = RowFailed(Verdict.MISTRUSTED, result.distrust, result.log_tail)
        if self.failed is not None:
            raise self.failed
        self.waited_ns += result.waited_ns
        self.totals_ns += [sum(stages) for stages in result.stage_ns]
        if result.mistimed:
            self.mistimed = result.mistimed
            raise Mistimed(result.mistimed)
        return result.stage_ns


def sample(
    launch: Launch,
    policy: SamplingPolicy,
    told: Callable[[int, int], None] = lambda spent, limit: None,
    *,
    lead: bool = False,
) -> Timed:
    """Launch until the stopping rule of ``policy`` is satisfied.

    Args:
        lead: some launches go before the first of the rule, because the kernel was not launched for a while. They take ``LEAD_NS``, and
            at most a share of the budget, and count as warm-up.
        told: takes the nanoseconds that were spent, and the time after which the samples are enough.
    """
    sampler = Sampler(policy)
    launches: list[tuple[int, ...]] = []
    totals: list[int] = []
    start = time.perf_counter_ns()
    led = _led(launch, min(LEAD_NS, policy.budget_ns // _LEAD_SHARE)) if lead else 0
    while count := sampler.next_batch(totals, spent := time.perf_counter_ns() - start):
        told(spent, policy.budget_ns)
        batch = launch(count)
        launches.extend(batch)
        totals.extend(sum(stages) for stages in batch)
    warm = sampler.warmup(totals) or 0
    return Timed(tuple(launches[warm:]), led + warm, sampler.stop(totals, spent) or StopReason.INTERRUPTED)


def _led(launch: Launch, least_ns: int) -> int:
    """Launch for so long by the host's clock, which counts what a session leaves out of its times: the number of launches."""
    start, done, count = time.perf_counter_ns(), 0, 1
    while count > 0:
        launch(count)
        done += count
        passed = max(1, time.perf_counter_ns() - start)
        count = min(done, MOST_LEADING - done, math.ceil((least_ns - passed) * done / passed))
    return done


def leading(each_ns: int | None) -> int:
    """How many launches go before the next counted one.

    Args:
        each_ns: the time of a launch by the host's clock in the last turn; None in the first, which is warm-up.
    """
    if each_ns is None or each_ns > LONG_NS:
        return 0
    return math.ceil(LEAD_NS / max(each_ns, LEAD_NS // MOST_LEADING))


def sample_turns(
    sides: Sequence[Launch],
    policy: SamplingPolicy,
    seed: int,
    told: Callable[[int, int], None] = lambda spent, limit: None,
    *,
    lead: bool = False,
) -> tuple[Timed, ...]:
    """Two kernels or more in interleaved rounds, in orders drawn from ``seed``, until their ratios to the first are known.

    Args:
        lead: launches of its own kernel go before each sample, as where a kernel is timed alone. Otherwise another kernel's does.
        told: as for :func:`sample`.
    """
    sampler = AbSampler(replace(policy, warmup_max=min(policy.warmup_max, LED_ROUNDS)) if lead else policy)
    launches: list[list[tuple[int, ...]]] = [[] for _ in sides]
    totals: list[list[int]] = [[] for _ in sides]
    each: list[int | None] = [None for _ in sides]
    start = time.perf_counter_ns()
    while rounds := sampler.next_rounds(*totals, spent_ns=(spent := time.perf_counter_ns() - start)):
        told(spent, policy.budget_ns)
        for order in orders(rounds, seed, len(totals[0]), len(sides)):
            for side in order:
                count, begun = 1 + (leading(each[side]) if lead else 0), time.perf_counter_ns()
                batch = sides[side](count)
                each[side] = (time.perf_counter_ns() - begun) // count
                launches[side].append(batch[-1])
                totals[side].append(sum(batch[-1]))
    warm, stop = sampler.warmup(*totals) or 0, sampler.stop(*totals, spent_ns=spent) or StopReason.INTERRUPTED
    return tuple(Timed(tuple(side[warm:]), warm, stop) for side in launches)


def policy_of(budget_s: float, max_time_s: float, processes: int) -> SamplingPolicy:
    """The stopping rule of each process: all of them together have the time of a row, and each takes enough samples."""
    whole = SamplingPolicy(budget_ns=int(budget_s * 1e9), max_ns=int(max_time_s * 1e9))
    if processes == 1:
        return whole
    most = max(whole.min_samples, whole.max_samples // processes)
    return replace(
        whole,
        budget_ns=max(1, whole.budget_ns // processes),
        max_ns=max(1, whole.max_ns // processes),
        max_samples=most,
    )


def in_processes(count: int, renew: Callable[[], None], once: Callable[[int], tuple[Timed, ...]]) -> tuple[Timed, ...]:
    """Sample in several fresh processes, one after the other, or once in the process that is there.

    Args:
        count: number of processes; 1 keeps the one that is there.
        renew: replaces the process.
        once: samples in one process, given its number; the same rows each time.
    """
    if count == 1:
        return once(0)
    found = []
    for process in range(count):
        renew()
        found.append(once(process))
    return tuple(_merged(of) for of in zip(*found, strict=True))


def _merged(parts: Sequence[Timed]) -> Timed:
    """One row's samples from several processes. Sampling ended for the reason of the first process that did not converge."""
    stops = [part.stop for part in parts]
    return Timed(
        launches=tuple(launch for part in parts for launch in part.launches),
        warmup=sum(part.warmup for part in parts),
        stop=next((stop for stop in stops if stop is not StopReason.CONVERGED), StopReason.CONVERGED),
        processes=tuple(number for number, part in enumerate(parts) for _ in part.launches),
    )
