"""FlashAttention end to end through the worker, with numpy models as kernels; results are judged as on a device."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu.recording import LONG_NS, VARIABLE, settings_text

from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.cases import Cases
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy, judge
from fmha_cli.run.layout import layout_of
from fmha_cli.run.records import Outcome
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.flash_attn.played import PLAIN, job_for

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="cuda-python is not installed"),
    pytest.mark.promise(
        "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
    ),
]


def judged(supervisor: Supervisor, job: WorkerJob) -> Outcome:
    cases = Cases(lambda problem, kind: fill(problem, kind), oracle_s=60.0)
    with Arena(layout_of(job.plan.problem, job.plan.workspaces, gaps=True)) as arena:
        return judge(supervisor, job, arena, cases, JudgePolicy(repeats=2, timeout=120.0, stream="fa2"))


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("line", "arch"),
    [
        ("-b 1 -H 4 --kv-heads 2 -s 70 -d 64 --causal --lse --splits 1", "sm_90"),
        ("--seqlens-q 5,0,40 --seqlens-k 9,4,30 -H 2 -d 32 --mask window:7,3 --dtype bf16 --alibi", "sm_80"),
        ("-b 2 -H 4 --kv-heads 2 -s 1 --kv-cache paged:256 --cache-seqlens 300,90 -d 64 --splits 2 --lse", "sm_120"),
        ("-b 2 -H 2 -s 2 --kv-cache linear --cache-seqlens 3,1 --append 2 --rotary 32 -d 64 --causal", "sm_90"),
        ("-b 1 -H 2 --kv-heads 1 -s 40 -d 64 --causal --dropout 0.2 --direction bwd --deterministic", "sm_86"),
        ("-b 1 -H 4 --kv-heads 2 -s 40 -d 64 --causal --alibi --direction fwd+bwd", "sm_90"),
        ("--seqlens-q 3,2 --seqlens-k 0,0 -H 2 -d 64 --lse", "sm_90"),
    ],
)
def test_the_whole_way_is_right_with_the_model(
    played: pytest.MonkeyPatch, tmp_path: Path, line: str, arch: str
) -> None:
    number = arch.removeprefix("sm_")
    played.setenv(VARIABLE, settings_text(kernel_ns=LONG_NS, capability=f"{number[:-1]}.{number[-1]}"))
    with Supervisor() as supervisor:
        result = judged(supervisor, job_for(line, tmp_path, "tests.support.models.flash_attn.modelled:modelled", arch))
    assert result.verdict in (Verdict.PASSED, Verdict.MISTRUSTED), (result.notes, result.log)
    assert all(check.passed for comparison in result.comparisons for _, check in comparison.checks)


def test_a_wild_kernel_is_a_crash(supervisor: Supervisor, tmp_path: Path) -> None:
    result = judged(supervisor, job_for(PLAIN, tmp_path, "tests.support.models.flash_attn.modelled:wild"))
    assert result.verdict is Verdict.CRASHED
    assert "illegal memory access" in " ".join(result.notes)
