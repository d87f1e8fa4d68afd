"""The cuDNN backend end to end through the worker, with the numpy model as kernels; results are judged as on a device."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu.recording import LONG_NS, VARIABLE, settings_text

from fmha_cli.domain.verdict import Verdict
from fmha_cli.execution.arena import Arena
from fmha_cli.execution.cases import Cases
from fmha_cli.execution.judge import JudgePolicy, judge
from fmha_cli.execution.layout import layout_of
from fmha_cli.execution.supervisor import Supervisor
from fmha_cli.oracle.fills import fill
from tests.support.fakes.cudnn_oss.played import job_of

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="cuda-python is not installed"),
    pytest.mark.promise(
        "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
    ),
]


@pytest.mark.parametrize(
    ("arch", "line"),
    [
        ("sm_90a", "-b 1 -H 4 --kv-heads 2 -s 128 -d 64 --causal --lse"),
        ("sm_103a", "-b 1 -H 2 -s 256 -d 64 --mask causal-tl --layout bshd"),
    ],
)
def test_the_whole_way_is_right_with_the_model(
    played: pytest.MonkeyPatch, tmp_path: Path, arch: str, line: str
) -> None:
    number = arch.removeprefix("sm_").rstrip("a")
    played.setenv(VARIABLE, settings_text(kernel_ns=LONG_NS, capability=f"{number[:-1]}.{number[-1]}"))
    job = job_of(arch, line, tmp_path)
    cases = Cases(lambda problem, kind: fill(problem, kind), oracle_s=60.0)
    with Supervisor() as supervisor, Arena(layout_of(job.plan.problem, job.plan.workspaces, gaps=True)) as arena:
        result = judge(supervisor, job, arena, cases, JudgePolicy(repeats=2, timeout=120.0), stream="fa2")
    assert result.verdict in (Verdict.PASSED, Verdict.MISTRUSTED), (result.notes, result.log_tail)
    assert all(check.passed for comparison in result.comparisons for _, check in comparison.checks)
