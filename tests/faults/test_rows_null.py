"""Every verdict, through the real worker with the null backend."""

from __future__ import annotations

from pathlib import Path

import pytest
from fmha_null.kernels import Behaviour

from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.judge import JudgePolicy
from fmha_cli.run.supervisor import Supervisor
from tests.support.fault_rows import CLOSE, TINY, cases, judged, null_job

EXPECTED = {
    Behaviour.HONEST: Verdict.PASSED,
    Behaviour.LAUNCH_ERROR: Verdict.LAUNCH_FAILED,
    Behaviour.EXCEPTION: Verdict.CRASHED,
    Behaviour.SEGFAULT: Verdict.CRASHED,
    Behaviour.ABORT: Verdict.CRASHED,
    Behaviour.EXIT: Verdict.CRASHED,
    Behaviour.HANG: Verdict.TIMED_OUT,
    Behaviour.OOM: Verdict.OUT_OF_MEMORY,
    Behaviour.GARBAGE_STDOUT: Verdict.PASSED,
    Behaviour.GARBAGE_PROTOCOL: Verdict.CRASHED,
    Behaviour.NAN: Verdict.WRONG,
    Behaviour.ZEROS: Verdict.WRONG,
    Behaviour.WRONG_VALUE: Verdict.WRONG,
    Behaviour.NEVER_WRITES: Verdict.WRONG,
    Behaviour.OOB_BEFORE: Verdict.OUT_OF_BOUNDS,
    Behaviour.OOB_AFTER: Verdict.OUT_OF_BOUNDS,
    Behaviour.OOB_GAP: Verdict.OUT_OF_BOUNDS,
    Behaviour.INPUT_WRITE: Verdict.OUT_OF_BOUNDS,
    Behaviour.NONDETERMINISTIC: Verdict.NONDETERMINISTIC,
    Behaviour.SLOW: Verdict.PASSED,
    Behaviour.SPLIT_BY_BATCH: Verdict.PASSED,
    Behaviour.ORDER_BY_THREADS: Verdict.PASSED,
    Behaviour.TILE_BY_PLACE: Verdict.PASSED,
}
LASTING = (Verdict.PASSED, Verdict.WRONG, Verdict.NONDETERMINISTIC)
"""Verdicts after which the worker goes on. Of these the dtype matters; each of the others costs the start of a worker."""


@pytest.mark.promise(
    "A kernel runs in a child process, so a crash or a hang costs one row.",
    "`validate` runs five fills with poison, guard zones and repeats, and counts the rows compared.",
)
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("dtype", "lasting"),
    [
        ("fp32", False),
        ("fp16", True),
        ("bf16", True),
        *(pytest.param(dtype, False, marks=pytest.mark.slow) for dtype in ("fp16", "bf16")),
    ],
)
def test_each_behaviour_has_its_verdict(any_supervisor: Supervisor, cache: Path, dtype: str, lasting: bool) -> None:
    shared = cases()
    assert set(EXPECTED) == set(Behaviour) - {Behaviour.BUILD_ERROR}
    expected = {behaviour: verdict for behaviour, verdict in EXPECTED.items() if not lasting or verdict in LASTING}
    found = {}
    for behaviour in expected:
        job = null_job(cache, behaviour, TINY.replace("fp32", dtype))
        timeout = 0.7 if behaviour is Behaviour.HANG else 60.0
        policy = JudgePolicy(fills=("normal", "coded"), repeats=2, timeout=timeout)
        found[behaviour] = judged(any_supervisor, job, policy, shared).verdict
    assert found == expected


def test_a_kernel_that_does_not_build(cache: Path) -> None:
    with pytest.raises(KernelFailure, match="build_error"):
        null_job(cache, Behaviour.BUILD_ERROR)


@pytest.mark.parametrize(
    "flags",
    [
        "-b 2 -H 4 --kv-heads 2 -s 33 --seqlen-k 65 -d 40 --mask window:5,3 --sink 2 --dtype bf16 --lse --softcap 20",
        "-H 4 --kv-heads 1 --seqlens-q 3,0,17 --seqlens-k 9,4,30 -d 64 --hdim-v 24 --causal --dtype fp32 --lse --layout bshd",
        "-b 2 -H 2 -s 4 -d 64 --kv-cache paged:16 --cache-seqlens 20,33 --dtype fp16 --causal",
        "-b 2 -H 2 -s 4 -d 64 --kv-cache linear --cache-seqlens 20,33 --dtype fp16 --alibi --layout bshd:bhsd",
        "-b 2 -H 2 -s 16 -d 64 --bias elementwise:bhss --sink-logits filled --dtype fp16 --lse",
        "--seqlens-q 3,9,17 -H 2 -d 64 --bias elementwise:1hss --dtype bf16",
        "-H 1 -s 5 --seqlen-k 2 -d 8 --causal --lse --dtype fp32",
    ],
)
@pytest.mark.parametrize("family", [Family.FWD, Family.FWD_SPLITKV])
def test_honest_kernels_pass_on_every_feature(
    any_supervisor: Supervisor, cache: Path, flags: str, family: Family
) -> None:
    row = judged(any_supervisor, null_job(cache, flags=flags, family=family), CLOSE)
    assert row.verdict is Verdict.PASSED, row.notes
    assert len(row.comparisons) == len(CLOSE.fills)
    assert len(row.stage_ns) == len(CLOSE.fills) * CLOSE.repeats
    assert {len(times) for times in row.stage_ns} == {1 if family is Family.FWD else 2}


@pytest.mark.slow
@pytest.mark.ci
def test_notes_name_what_happened(any_supervisor: Supervisor, cache: Path) -> None:
    def notes(behaviour: Behaviour) -> str:
        return "; ".join(judged(any_supervisor, null_job(cache, behaviour)).notes)

    assert notes(Behaviour.OOB_AFTER) == "fill normal: wrote 4 bytes, one element after the end of o"
    assert notes(Behaviour.OOB_BEFORE) == "fill normal: wrote 4 bytes, one element before the start of o"
    assert notes(Behaviour.OOB_GAP) == "fill normal: wrote 4 bytes in the gap after element 7 of o"
    assert notes(Behaviour.INPUT_WRITE) == "fill normal: input q was written to: 1 element, first at [0, 0, 0, 0]"
    assert "o: 80 of 80 elements never written" in notes(Behaviour.NEVER_WRITES)
    assert "SIGSEGV" in notes(Behaviour.SEGFAULT)
    assert "exited with status 3" in notes(Behaviour.EXIT)
    assert "o: 1 of 80 elements differ between runs" in notes(Behaviour.NONDETERMINISTIC)


def test_without_a_check_the_guards_are_watched(any_supervisor: Supervisor, cache: Path) -> None:
    policy = JudgePolicy(check=False, timeout=60.0)
    wrong = judged(any_supervisor, null_job(cache, Behaviour.ZEROS), policy)
    assert (wrong.verdict, wrong.comparisons) == (Verdict.UNCHECKED, ())
    assert judged(any_supervisor, null_job(cache, Behaviour.OOB_AFTER), policy).verdict is Verdict.OUT_OF_BOUNDS


def test_good_rows_share_one_worker(supervisor: Supervisor, cache: Path) -> None:
    for behaviour in (Behaviour.HONEST, Behaviour.WRONG_VALUE, Behaviour.GARBAGE_STDOUT, Behaviour.NAN):
        judged(supervisor, null_job(cache, behaviour))
    assert supervisor.started == 1


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_that_wrote_out_of_bounds_costs_its_worker(supervisor: Supervisor, cache: Path) -> None:
    judged(supervisor, null_job(cache, Behaviour.OOB_AFTER))
    judged(supervisor, null_job(cache))
    assert supervisor.started == 2
