"""The second judgement after timed launches, on the problems that the wrong kernels do not cover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.checks import negated, negated_inputs
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy, judge, recheck
from fmha_cli.run.layout import layout_of
from fmha_cli.run.records import Outcome
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.modelled_backend import ENTRY, Slip, modelled_plan
from tests.support.fault_rows import DEVICE, cases

POLICY = JudgePolicy(timeout=60.0, late=False)
BWD = "-b 1 -H 2 --kv-heads 1 -s 9 --seqlen-k 11 -d 8 --dtype fp16 --causal --direction bwd"
PROBLEMS = [
    "-b 1 -H 2 -s 9 --seqlen-k 5 -d 8 --dtype fp32 --causal --lse",  # some rows see nothing: O = +0 on both data
    "-b 1 -H 2 -s 9 -d 8 --dtype bf16 --softcap 3 --dropout 0.3 --sink-logits filled",
    BWD,
    BWD.replace("bwd", "fwd+bwd"),
    "-b 1 -H 2 -s 9 -d 8 --dtype bf16 --direction fwd+bwd --bias elementwise:1hss --dbias --dropout 0.2",
    "-b 2 -H 2 -s 3 -d 8 --dtype fp16 --causal --append 2 --rotary 8 --cache-seqlens 5,9 --kv-cache linear",
    "-b 2 -H 2 -s 3 -d 8 --dtype bf16 --causal --append 2 --cache-seqlens 5,9 --kv-cache paged:4 --lse --layout bshd",
    "-b 2 -H 2 --kv-heads 1 -s 3 -d 9 --mla-rope 3 --dtype bf16 --causal --append 2 --cache-seqlens 5,9 --kv-cache paged:4",
    "-b 1 -H 4 --kv-heads 2 -s 9 -d 9 --mla-rope 3 --dtype fp16 --direction fwd+bwd --bias elementwise:1hss --dbias",
]


@contextmanager
def judged_once(
    supervisor: Supervisor, flags: str, slip: Slip = Slip.NONE
) -> Iterator[tuple[WorkerJob, Arena, Outcome]]:
    plan = modelled_plan(Problem.from_cli(flags), slip)
    job = WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=())
    with Arena(layout_of(plan.problem, plan.workspaces)) as arena:
        yield job, arena, judge(supervisor, job, arena, cases(), POLICY)


@pytest.mark.parametrize("flags", PROBLEMS)
def test_an_honest_kernel_passes_again_bit_by_bit(
    any_supervisor: Supervisor, flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negated launch gives exactly the negated outputs, so nothing has to be compared with the reference."""
    with judged_once(any_supervisor, flags) as (job, arena, judged):
        assert judged.verdict is Verdict.PASSED, judged.notes
        assert any_supervisor.run(job, arena, launches=3, upload=False, download=False).verdict is None
        monkeypatch.setattr("fmha_cli.run.judge.compared", None)
        again = recheck(any_supervisor, job, arena, cases(), POLICY, judged, timed=3)
    assert (again.verdict, again.notes, len(again.stage_ns)) == (Verdict.PASSED, (), 2)


@pytest.mark.promise("What the timed launches leave is judged, and times that cannot be true do not count.")
@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (PROBLEMS[0], "o"),
        *((BWD, name) for name in ("dq", "dk", "dv")),
        *((BWD.replace("bwd", "fwd+bwd"), name) for name in ("o", "dq", "dk", "dv")),
    ],
)
def test_an_output_that_the_timed_launches_spoilt_is_seen(any_supervisor: Supervisor, flags: str, name: str) -> None:
    with judged_once(any_supervisor, flags) as (job, arena, judged):
        arena.view(name).flat[0] = 7
        again = recheck(any_supervisor, job, arena, cases(), POLICY, judged, timed=1, again=False)
    assert again.verdict in (Verdict.WRONG, Verdict.NONDETERMINISTIC)
    assert any(note.startswith("fill normal: after 1 timed launches: ") for note in again.notes)


def test_a_gradient_that_may_differ_is_compared_with_the_reference(any_supervisor: Supervisor) -> None:
    """Atomic additions change the last bit of dQ; that is not a fault after the timed launches either."""
    with judged_once(any_supervisor, BWD, Slip.DQ_RACE) as (job, arena, judged):
        any_supervisor.run(job, arena, launches=2, upload=False, download=False)
        again = recheck(any_supervisor, job, arena, cases(), POLICY, judged, timed=2)
    assert again.verdict is Verdict.PASSED, again.notes


def test_a_result_returned_again_is_seen_in_rows_that_no_sample_holds(any_supervisor: Supervisor) -> None:
    """An old result gives itself away by its sign, also where nothing is compared with the reference."""
    unchecked = replace(POLICY, check=False)
    plan = modelled_plan(Problem.from_cli(PROBLEMS[1]), Slip.STALE_ROW)
    job = WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=())
    with Arena(layout_of(plan.problem)) as arena:
        judged = judge(any_supervisor, job, arena, cases(), unchecked)
        assert judged.verdict is Verdict.UNCHECKED
        again = recheck(any_supervisor, job, arena, cases(), unchecked, judged, timed=0)
    assert again.verdict is Verdict.WRONG
    assert again.notes == (
        "fill normal: one more launch, V negated: o: 8 of 144 elements are those of an earlier launch, first at [0, 1, 8, 0]",
    )


@pytest.mark.slow
@pytest.mark.ci
def test_a_worker_that_was_replaced_is_warmed_up_before_it_is_asked(any_supervisor: Supervisor) -> None:
    """In a fresh worker the first launch is right. The launch that counts must not be the first one."""
    with judged_once(any_supervisor, PROBLEMS[1], Slip.STALE_ROW) as (job, arena, judged):
        any_supervisor.retire()
        assert not any_supervisor.holds(job, arena)
        again = recheck(any_supervisor, job, arena, cases(), POLICY, judged, timed=3)
    assert again.verdict is Verdict.WRONG


@pytest.mark.parametrize("flags", PROBLEMS)
def test_negating_twice_restores_every_bit(flags: str) -> None:
    problem = Problem.from_cli(flags)
    inputs = cases().case(problem, "normal", stream="fmha").inputs
    made = negated_inputs(problem, inputs)
    assert made is not None
    changed = {name for name in inputs if made.inputs[name] is not inputs[name]}
    signed = {"q", "k", "k_new"} if problem.v_in_k else {"v", "v_new"}
    assert changed == ({"do"} if problem.direction.value == "bwd" else signed & set(inputs))
    assert all(negated(made.inputs[name]).tobytes() == inputs[name].tobytes() for name in changed)


def test_inputs_without_a_sign_bit_stay_as_they_are() -> None:
    problem = Problem.from_cli(PROBLEMS[0])
    inputs = dict(fill(problem))
    inputs["v"] = inputs["v"].astype(np.int8)
    assert negated_inputs(problem, inputs) is None
