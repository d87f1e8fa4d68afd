"""Timing rows in the worker: one kernel until its interval is narrow, or two in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fmha_cli.measure.ab import AbSampler, orders
from fmha_cli.measure.sampling import Sampler, SamplingPolicy

Launch = Callable[[int], tuple[tuple[int, ...], ...]]
"""Launches n times in a row: nanoseconds per launch and stage. Raises ``RowFailed`` if the kernel does not survive."""


@dataclass(frozen=True)
class Timed:
    """Raw launches, warm-up included, and the wall time they took with everything around them (evictions)."""

    launches: tuple[tuple[int, ...], ...]
    spent_ns: int


def sample(launch: Launch, policy: SamplingPolicy) -> Timed:
    """Launch until the stopping rule of ``policy`` is satisfied."""
    sampler = Sampler(policy)
    launches: list[tuple[int, ...]] = []
    totals: list[int] = []
    start = time.perf_counter_ns()
    while count := sampler.next_batch(totals, time.perf_counter_ns() - start):
        batch = launch(count)
        launches.extend(batch)
        totals.extend(sum(stages) for stages in batch)
    return Timed(tuple(launches), time.perf_counter_ns() - start)


def sample_pair(first: Launch, second: Launch, policy: SamplingPolicy, seed: int) -> tuple[Timed, Timed]:
    """Two kernels in interleaved rounds, in an order drawn from ``seed``, until their ratio is known."""
    sampler = AbSampler(policy)
    launches: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
    totals: tuple[list[int], list[int]] = ([], [])
    start = time.perf_counter_ns()
    while rounds := sampler.next_rounds(*totals, time.perf_counter_ns() - start):
        for order in orders(rounds, seed, len(totals[0])):
            for side in order:
                batch = (first, second)[side](1)
                launches[side].extend(batch)
                totals[side].append(sum(batch[0]))
    spent = time.perf_counter_ns() - start
    return Timed(tuple(launches[0]), spent), Timed(tuple(launches[1]), spent)
