"""What confirms a winner: the command lines of the fresh processes, and what becomes of their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.bench.compare import Speed
from fmha_cli.bench.roofline import CacheState
from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.problem import Problem
from fmha_cli.report.record import Record
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row
from fmha_cli.tune import confirming
from fmha_cli.tune.candidates import candidates_of
from fmha_cli.tune.confirming import Confirmer, gain_of
from tests.support.generators.runs_to_compare import processes, timed

PROBLEM = Problem.of(seqlen=512, heads=1, hdim=64, dtype="bf16")
DEVICE = DeviceFacts(id="cpu", archs=("x86_64_amx", "x86_64_v4_bf16"), name="a processor")


@dataclass
class Played:
    """Turns whose processes were recorded: the second command is faster, and its kernel is another architecture's."""

    commands: tuple[tuple[str, ...], tuple[str, ...]]
    environ: dict[str, str]
    tell: Any = None

    def run(self, count: int, only: Iterable[Record] = ()) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        SEEN.append(self)
        before = [timed([one], arch="x86_64_amx") for one in processes(1_000_000, 1, count)]
        after = [timed([one], arch="x86_64_v4_bf16", kernel="b") for one in processes(800_000, 2, count)]
        return tuple(before), tuple(after)


SEEN: list[Played] = []


def rows() -> tuple[Row, Row]:
    found = {"cpu": Availability(state=State.OK, devices=(DEVICE,))}
    registry = build_registry()
    candidates = candidates_of(PROBLEM, registry, found, Wanted(backend="cpu"))
    every = candidates.rows(registry, CacheState.HOT, 0)
    other = next(row for row in every if row.choice is not None and row.choice.kernel.arch == "x86_64_v4_bf16")
    return every[0], other


def test_kernels_of_two_architectures_correspond(monkeypatch: pytest.MonkeyPatch) -> None:
    SEEN.clear()
    monkeypatch.setattr(confirming, "Turns", Played)
    default, winner = rows()
    assert backend.name == "cpu"
    environ = {"FMHA_SELECT": "default", "FMHA_JSON": "1", "FMHA_CACHE_DIR": "/cache"}
    request = Request(backend="cpu", threads=1, fill_seed=3, budget_s=0.5, options={"ck-home": "/ck"})
    confirmer = Confirmer(request=request, registry=build_registry(), environ=environ, processes=5, min_gain=0.02)
    difference = confirmer.difference(default, winner)
    assert difference.speed is Speed.FASTER
    gain, ends = gain_of(difference)
    assert gain == pytest.approx(0.25, abs=0.02)
    assert ends is not None
    assert ends[0] < gain < ends[1]
    (turns,) = SEEN
    assert turns.environ == {"FMHA_CACHE_DIR": "/cache", "FMHA_ONLY": PROBLEM.digest[:16]}
    for words, row in zip(turns.commands, (default, winner), strict=True):
        assert row.choice is not None
        line = " ".join(words)
        assert f"--kernel {row.choice.kernel.name} " in line
        assert "--threads 1" in line
        assert "--fill-seed 3" in line
        assert "--ck-home /ck" in line
        assert "--no-store" in line
