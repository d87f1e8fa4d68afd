"""Samples of the faults of the check ``flash_attn_3_faults``: each is caught, or a further run explains it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli.api import build_registry
from fmha_cli.discovery.emulated_devices import emulated_device
from tests.checks.check import builds
from tests.checks.flash_attn_3_faults import KERNELS
from tests.checks.flash_attn_3_problems import PROBLEMS
from tests.support.planted.outcomes import Caught, sampled
from tests.support.planted.ptx import faults
from tests.support.planted.ptx_rows import rows
from tests.support.planted.ptx_runs import PlantedPtx, PtxKernel
from tests.support.planted.statements import Fault, Planted, statements

pytestmark = pytest.mark.timeout(3600)
CAUGHT = (Caught.NAMED, Caught.NUMBERS, Caught.HANGS)


def test_ci_compiles_no_further_kernel() -> None:
    registry = build_registry()
    device = emulated_device(registry, "emu:sm_90a")[1]
    small = next(problem.flags for problem in PROBLEMS if "-s 150 -d 64" in problem.flags)
    assert builds(registry, "flash_attn_3", KERNELS[0].flags, device) == builds(registry, "flash_attn_3", small, device)


@pytest.mark.slow
@pytest.mark.ci
def test_faults_in_a_small_kernel_are_caught(tmp_path: Path) -> None:
    """Registers that nobody releases, bytes that never come, and a product left out."""
    wanted = (Planted.REGISTERS, Planted.BYTES, Planted.PRODUCT)
    with PlantedPtx(KERNELS[0], build_registry(), tmp_path) as subject:
        every = faults(subject.text, 128)
        chosen = [next(f for f in every if f.kind is kind and ".inc" not in f.before) for kind in wanted]
        found = {row["fault"]: row["caught"] for row in rows(subject, chosen, every)}
    assert found == {Planted.REGISTERS: Caught.NAMED, Planted.BYTES: Caught.NAMED, Planted.PRODUCT: Caught.NUMBERS}


@pytest.mark.slow
def test_a_trap_shows_behind_the_findings_of_an_earlier_kernel(tmp_path: Path) -> None:
    """The main kernel's known hazards fill the note of what adds up its parts."""
    with PlantedPtx(KERNELS[-1], build_registry(), tmp_path) as subject:
        first = statements(subject.text)[0]
        assert subject.reaches(Fault(Planted.CONSTANT, first.line, first.text, first.text))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_sample_of_faults_is_caught_or_explained(kernel: PtxKernel, tmp_path: Path) -> None:
    with PlantedPtx(kernel, build_registry(), tmp_path) as subject:
        every = faults(subject.text, subject.problem.hdim * 2)
        done = list(rows(subject, sampled(every, 1, seed=1), every))
    assert [row for row in done if row["caught"] == Caught.UNEXPLAINED] == []
    assert sum(row["caught"] in CAUGHT for row in done) >= len(done) // 3
