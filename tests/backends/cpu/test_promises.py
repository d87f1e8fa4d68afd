"""CPU kernels keep what they promise."""

from __future__ import annotations

import random

import pytest

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.decide import decide
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.backends.cpu.promises import promises
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.invariance import AROUND, Invariance
from fmha_cli.domain.problem import Problem
from fmha_cli.report.documents.invariance import InvarianceOutcome
from fmha_cli.run.invariance import InvarianceProbe
from fmha_cli.run.request import Request
from tests.checks.invariance import PROMISED, draw_flags


@pytest.mark.slow
@pytest.mark.sampled(1, ci=1)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_promised_holds(seed: int) -> None:
    draw = random.Random(seed)
    with InvarianceProbe(Request(backend="cpu", require=PROMISED), build_registry()) as probe:
        rows = [row for _ in range(4) for row in probe.rows_of(Problem.from_cli(draw_flags(draw)))]
    told = {InvarianceOutcome.BROKEN, InvarianceOutcome.FAILED}
    bad = [f"{row.outcome} {row.property} {row.repro} {row.difference}" for row in rows if row.outcome in told]
    assert not bad, "\n".join(bad)
    assert sum(row.outcome is InvarianceOutcome.HELD for row in rows) > len(rows) // 3


def test_parts_that_the_launch_chooses_are_promised_to_nobody() -> None:
    device = detect()
    found: dict[tuple[LoopKind, int], frozenset[Invariance]] = {}
    for splits in (0, 2):
        problem = Problem.from_cli(f"-s 4 -d 64 --dtype fp32 --splits {splits or 'auto'}")
        for decision in decide(problem, device):
            if isinstance(decision, Supported):
                found[algorithm_of(decision.kernel).kind, splits] = promises(problem, decision.kernel, device)
    assert found[LoopKind.PREFILL, 0] >= AROUND
    assert Invariance.BATCH not in found[LoopKind.DECODE, 0]
    assert found[LoopKind.SPLIT, 2] >= AROUND
    assert all(Invariance.CHUNKS not in promised for promised in found.values())
