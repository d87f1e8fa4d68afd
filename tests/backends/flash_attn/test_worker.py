"""FlashAttention in the worker on the stand-in driver: lost devices, full devices and refusals by the driver."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu.recording import LONG_NS, VARIABLE, settings_text

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.domain.device import State
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.job import JobResult, WorkerJob
from fmha_cli.run.layout import layout_of
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.flash_attn.played import ENTRY, OTHER, PLAIN, job_for

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="cuda-python is not installed")


def run(supervisor: Supervisor, job: WorkerJob, **options: bool) -> JobResult:
    with Arena(layout_of(job.plan.problem, job.plan.workspaces)) as arena:
        arena.write(fill(job.plan.problem))
        arena.prepare()
        return supervisor.run(job, arena, timeout=60.0, **options)


def test_the_probe_asks_the_driver(supervisor: Supervisor) -> None:
    found = supervisor.probe(ENTRY, "flash_attn")
    assert found.state is State.OK, found
    assert (found.devices[0].id, found.devices[0].archs) == ("cuda:0", ("sm_90a", "sm_90"))
    assert CubinBackend(UPSTREAM).probes_in_parent is False


@pytest.mark.slow
@pytest.mark.ci
def test_a_lost_device_costs_one_row(played: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played.setenv(VARIABLE, settings_text(fault="700@1", once=tmp_path / "struck"))
    with Supervisor() as supervisor:
        first = run(supervisor, job_for(PLAIN, tmp_path))
        assert first.verdict is Verdict.CRASHED
        assert "an illegal memory access was encountered (700)" in (first.note or "")
        assert run(supervisor, job_for(OTHER, tmp_path)).verdict is None
        assert supervisor.started == 2


@pytest.mark.slow
@pytest.mark.ci
def test_a_device_lost_to_an_earlier_kernel_is_not_the_rows_fault(played: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played.setenv(VARIABLE, settings_text(fault="719@2", once=tmp_path / "struck"))
    with Supervisor() as supervisor:
        assert run(supervisor, job_for(OTHER, tmp_path)).verdict is None
        result = run(supervisor, job_for(PLAIN, tmp_path))
        assert result.verdict is None
        assert "unspecified launch failure (719)" in (result.distrust or "")
        assert supervisor.started == 2


@pytest.mark.slow
@pytest.mark.ci
def test_a_full_device_is_out_of_memory(played: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played.setenv(VARIABLE, settings_text(memory=200_000))
    with Supervisor() as supervisor:
        large = run(supervisor, job_for("-b 1 -H 2 -s 2k -d 64 --splits 1", tmp_path))
        assert large.verdict is Verdict.OUT_OF_MEMORY
        assert "cuMemAlloc: out of memory (2)" in (large.note or "")


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("settings", "verdict", "words"),
    [
        ({"refuse": 701}, Verdict.LAUNCH_FAILED, "too many resources requested for launch (701)"),
        ({"capability": "8.0"}, Verdict.LAUNCH_FAILED, "no kernel image is available"),
        ({"devices": 0}, Verdict.NOT_RUN, "no CUDA-capable device is detected"),
        ({"driver": 12090}, Verdict.NOT_RUN, "it supports CUDA 12.9, they need CUDA 13.0"),
    ],
)
def test_what_the_driver_refuses(
    played: pytest.MonkeyPatch, tmp_path: Path, settings: dict[str, object], verdict: Verdict, words: str
) -> None:
    played.setenv(VARIABLE, settings_text(**settings))
    with Supervisor() as supervisor:
        result = run(supervisor, job_for(PLAIN, tmp_path))
        assert result.verdict is verdict
        assert words in (result.note or "")


@pytest.mark.slow
@pytest.mark.ci
def test_cold_launches(supervisor: Supervisor, tmp_path: Path) -> None:
    result = run(supervisor, job_for(PLAIN, tmp_path), cold=True)
    assert result.stage_ns == ((LONG_NS,),)
