"""The plan: every row for every kind of device, and chunks whose rows need the same kernels."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.phases import SILENT
from fmha_cli.domain.problem import Problem
from fmha_cli.run.request import Command, Request
from fmha_cli.sweeps.jobs import ChunkJob
from fmha_cli.sweeps.ledger import Ledger
from fmha_cli.sweeps.places import PlaceKind, WorkerPlace
from fmha_cli.sweeps.plan import Chunk, SweepPlan, plan_sweep


def plan_of(*points: Problem, kinds: int = 1, command: Command = Command.RUN) -> SweepPlan:
    """The plan of some problems for so many kinds of null devices."""
    found = [
        PlaceKind(
            first=f"null:{n}",
            found={
                "null": Availability(
                    state=State.OK, devices=(DeviceFacts(id=f"null:{n}", archs=("null",), units=n + 1),)
                )
            },
        )
        for n in range(kinds)
    ]
    request = Request(command=command, backend="null")
    return plan_sweep(points, (), request, build_registry(), found, SILENT)


MIXED = [Problem.of(seqlen=16 + n, hdim=32, dtype=("fp16", "fp32")[n % 2]) for n in range(10)]


@pytest.mark.promise("Rows of the same kernels stay together, and one host builds a cluster's kernel for all.")
@pytest.mark.parametrize("size", [1, 3, 16])
def test_chunks_hold_every_row_once_and_need_the_same_kernels(size: int) -> None:
    plan = plan_of(*MIXED, kinds=2)
    chunks = list(plan.chunks(size))
    assert sorted(number for chunk in chunks for number in chunk.numbers) == list(range(20))
    for chunk in chunks:
        assert len({unit.builds for unit in chunk.units}) == 1
        assert {unit.kind for unit in chunk.units} == {chunk.kind}
        assert len(chunk.numbers) <= size
    changes = sum(before.builds != after.builds for before, after in pairwise(chunks))
    assert changes == 1  # two kernels, each on both kinds of devices


def test_rows_of_one_problem_stay_together() -> None:
    plan = plan_of(*MIXED[:2], command=Command.VALIDATE)
    assert [len(unit.rows) for unit in plan.units] == [2, 2]  # validate judges the sibling with LSE too
    assert [chunk.numbers for chunk in plan.chunks(1)] == [(0, 1), (2, 3)]


@pytest.mark.promise("Rows of the same kernels stay together, and one host builds a cluster's kernel for all.")
def test_each_kind_gets_each_row_with_a_key_of_its_own() -> None:
    plan = plan_of(*MIXED, kinds=3)
    assert len({row.key for row in plan.rows}) == len(plan.rows) == 30


def test_a_problem_without_a_kernel_needs_no_worker() -> None:
    plan = plan_of(MIXED[0], Problem.of(seqlen=16, hdim=1024))
    assert [unit.runs for unit in plan.units] == [True, False]
    assert [chunk.numbers for chunk in plan.chunks(16)] == [(0,)]


def test_a_job_survives_its_way_to_the_worker() -> None:
    plan = plan_of(*MIXED)
    unlimited = replace(plan, request=replace(plan.request, oracle_s=float("inf"), options={"ck-rev": "x"}))
    for chunk in unlimited.chunks(4):
        job = unlimited.job(chunk, lambda number: None)
        assert ChunkJob.of_line(job.line()) == job
        assert list(job.problems) == [MIXED[unit.problem] for unit in chunk.units]
        assert job.on("null:1", 2).request.device == "null:1"


@pytest.mark.promise("`--overlap` shows a slower device or host, with an interval.")
def test_a_share_of_the_problems_runs_at_every_place_with_keys_of_their_own() -> None:
    plan = plan_of(*MIXED)
    places = [WorkerPlace(device="null:0", name=f"null:{n}", kind=0) for n in range(3)]
    spread = plan_sweep(plan.points, (), plan.request, build_registry(), plan.kinds, SILENT, places, overlap=0.2)
    pinned = [unit for unit in spread.units if unit.place]
    assert [(unit.problem, unit.place) for unit in pinned] == [(p, f"null:{n}") for p in (4, 9) for n in range(3)]
    assert len({row.key for row in spread.rows}) == len(spread.rows) == 14
    for chunk in spread.chunks(16):
        assert {unit.place for unit in chunk.units} == {chunk.place}


def test_a_pinned_chunk_goes_to_its_place_alone() -> None:
    plan = plan_of(MIXED[0])
    unit = replace(plan.units[0], place="null:1")
    ledger = Ledger(1)
    ledger.add([Chunk(0, 0, (unit,))])
    assert ledger.give(0, "null:0") is None
    assert ledger.stuck([(0, "null:0")])
    assert not ledger.stuck([(0, "null:0"), (0, "null:1")])
    assert ledger.give(0, "null:1") is not None
