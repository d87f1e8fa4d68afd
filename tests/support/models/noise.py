"""Samplers that stand in for a machine: true times under a clean noise, and under one that was recorded."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from statistics import median

from tests.support.paths import ROOT

RECORDED = ROOT / "benchmarks" / "compare_noise.json"

TRUE = tuple(1000 * (1 + 0.007 * place) for place in range(20))
"""20 kernels whose times differ by 13 %, as those of one CPU problem did."""


@dataclass
class Clean:
    """Normal noise of 3 %, and 5 % of the samples take up to twice as long."""

    seed: int
    true: Sequence[float] = TRUE
    taken: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def take(self, arm: int, count: int) -> list[int]:
        self.taken.append((arm, count))
        return [round(self.true[arm] * self._noise()) for _ in range(count)]

    def _noise(self) -> float:
        late = 1 + self.draw.random() if self.draw.random() < 0.05 else 1.0
        return max(0.5, self.draw.gauss(1, 0.03)) * late


@cache
def recorded(conditions: str) -> tuple[tuple[float, ...], ...]:
    """The noise of each recorded problem: its times as shares of their median, in the order of the recording."""
    rows = json.loads(RECORDED.read_text("utf-8"))[conditions]["rows"].values()
    return tuple(tuple(row[0] / median(one[0] for one in rows_of) for row in rows_of) for rows_of in rows)


@dataclass
class Recorded:
    """Recorded noise, handed out in the order of its time whoever samples, from a random moment on."""

    seed: int
    conditions: str = "busy, 1 thread"
    true: Sequence[float] = TRUE

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        series = draw.choice(recorded(self.conditions))
        start = draw.randrange(len(series))
        self.noise = cycle(series[start:] + series[:start])

    def take(self, arm: int, count: int) -> list[int]:
        return [round(self.true[arm] * next(self.noise)) for _ in range(count)]


def regret(order: Sequence[int], true: Sequence[float] = TRUE) -> float:
    """By what share the chosen kernel is slower than the best."""
    return true[order[0]] / min(true) - 1
