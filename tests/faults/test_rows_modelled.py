"""The judge on cases that the null backend does not compute: backward passes, appended caches, sampled rows."""

from __future__ import annotations

import pytest

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle import budgets
from fmha_cli.oracle.fills import fill
from fmha_cli.run.cases import Cases
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy
from fmha_cli.run.records import Outcome
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.modelled_backend import ENTRY, Slip, modelled_plan
from tests.support.fault_rows import CLOSE, DEVICE, judged

BWD = "-b 1 -H 2 --kv-heads 1 -s 9 --seqlen-k 11 -d 8 --dtype fp16 --causal --direction bwd"
APPEND = "-b 2 -H 2 -s 3 -d 8 --dtype fp16 --causal --append 2 --rotary 8 --cache-seqlens 5,9"


def row(
    any_supervisor: Supervisor,
    flags: str,
    slip: Slip = Slip.NONE,
    *,
    deterministic: bool = False,
    policy: JudgePolicy = CLOSE,
    oracle_s: float = 10.0,
) -> Outcome:
    plan = modelled_plan(Problem.from_cli(flags), slip, deterministic=deterministic)
    job = WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=())
    shared = Cases(lambda problem, kind: fill(problem, kind, 0), oracle_s=oracle_s)
    return judged(any_supervisor, job, policy, shared)


@pytest.mark.parametrize(
    "flags",
    [
        BWD,
        BWD.replace("bwd", "fwd+bwd"),
        f"{BWD} --layout bshd --softcap 4 --bias elementwise:1hss --dbias",
        "--seqlens-q 3,0,4 --seqlens-k 2,3,5 -H 2 -d 8 --dtype bf16 --direction bwd --bias elementwise:1hss --dbias",
        "--seqlens-q 3,4 --seqlens-k 2,5 -H 2 -d 8 --dtype fp32 --direction fwd+bwd --bias elementwise:bhss --dbias",
        "--seqlens-q 3,4 --seqlens-k 2,5 -H 2 -d 8 --dtype fp32 --direction bwd --bias elementwise --dbias",
        f"{APPEND} --kv-cache linear",
        f"{APPEND.replace('--rotary 8 ', '')} --kv-cache paged:4 --lse --layout bshd",
    ],
)
def test_honest_kernels_pass(any_supervisor: Supervisor, flags: str) -> None:
    found = row(any_supervisor, flags)
    assert found.verdict is Verdict.PASSED, (found.notes, found.comparisons)
    expected = {"dq", "dk", "dv"} if "bwd" in flags else {"o", "k", "v"}
    assert all(expected <= {name for name, _ in one.checks} for one in found.comparisons)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("storage", ["linear", "paged:4"])
@pytest.mark.parametrize(
    ("slip", "verdict"), [(Slip.CACHE_NOT_APPENDED, Verdict.WRONG), (Slip.OLD_KEY_CHANGED, Verdict.OUT_OF_BOUNDS)]
)
def test_a_cache_that_is_not_what_the_append_gives_is_no_pass(
    any_supervisor: Supervisor, storage: str, slip: Slip, verdict: Verdict
) -> None:
    assert row(any_supervisor, f"{APPEND} --kv-cache {storage}", slip).verdict is verdict


@pytest.mark.parametrize("slip", [Slip.DQ_WRONG, Slip.DK_UNWRITTEN])
def test_a_wrong_gradient_is_wrong(any_supervisor: Supervisor, slip: Slip) -> None:
    found = row(any_supervisor, BWD, slip)
    assert found.verdict is Verdict.WRONG
    if slip is Slip.DK_UNWRITTEN:
        assert "dk: 88 of 88 elements never written, first at [0, 0, 0, 0]" in found.notes[0]


def test_only_a_kernel_that_promises_it_must_repeat_its_gradients(any_supervisor: Supervisor) -> None:
    assert row(any_supervisor, BWD, Slip.DQ_RACE).verdict is Verdict.PASSED
    found = row(any_supervisor, BWD, Slip.DQ_RACE, deterministic=True)
    assert found.verdict is Verdict.NONDETERMINISTIC
    assert "dq: 1 of 144 elements differ between runs, first at [0, 0, 0, 0]" in found.notes[0]


def test_the_output_of_a_forward_pass_must_repeat_whatever_follows_it(any_supervisor: Supervisor) -> None:
    both = BWD.replace("bwd", "fwd+bwd")
    assert row(any_supervisor, both, Slip.DQ_RACE).verdict is Verdict.PASSED
    found = row(any_supervisor, both, Slip.O_RACE)
    assert found.verdict is Verdict.NONDETERMINISTIC
    assert "o: 1 of " in found.notes[0]


@pytest.mark.parametrize(
    ("slip", "words"), [(Slip.LAST_ROW_UNWRITTEN, "never written"), (Slip.LAST_ROW_NAN, "not finite")]
)
def test_rows_outside_the_sample_are_not_forgotten(any_supervisor: Supervisor, slip: Slip, words: str) -> None:
    """Without time for the oracle, two heads are sampled. The others must still be written and finite."""
    flags = "-b 1 -H 6 -s 40 -d 8 --dtype fp16"
    sampled = Cases(lambda problem, kind: fill(problem, kind, 0), oracle_s=1e-9)
    reference = sampled.case(Problem.from_cli(flags), "normal", stream="fmha").reference
    assert reference is not None
    assert len(reference.rows) < 6 * 40
    found = row(any_supervisor, flags, slip, oracle_s=1e-9)
    assert found.verdict is Verdict.WRONG
    assert any(words in note for note in found.notes)
    assert row(any_supervisor, flags, oracle_s=1e-9).verdict is Verdict.PASSED


def test_a_dtype_without_a_budget_is_not_trusted(any_supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(budgets.EPS, DType.FP8_E4M3)
    found = row(any_supervisor, "-b 1 -H 1 -s 8 -d 8 --dtype fp8_e4m3:fp8_e4m3")
    assert found.verdict is Verdict.MISTRUSTED
    assert "no measured error budget" in found.notes[0]


def test_data_that_proves_nothing_is_not_trusted(any_supervisor: Supervisor) -> None:
    plan = modelled_plan(Problem.from_cli("-b 1 -H 2 -s 16 -d 8 --dtype fp16"))
    zeros = Cases(lambda problem, kind: {n: x * 0 for n, x in fill(problem, kind, 0).items()}, oracle_s=1.0)
    found = judged(any_supervisor, WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=()), CLOSE, zeros)
    assert found.verdict is Verdict.MISTRUSTED
    assert "zero in every element" in found.notes[0]
