"""cuDNN's kernel for sm_100a: stores over tensor memory that was loaded and not waited for, and the waits that mend it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli.api import build_registry
from tests.support.planted.ptx_runs import PlantedPtx, PtxKernel
from tests.support.planted.statements import Fault, Planted, Statement, statements

KERNEL = PtxKernel("forward d128 causal", "cudnn_oss", "sm_100a", "-b 1 -H 1 -s 256 -d 128 --dtype bf16 --causal")
WAIT = "tcgen05.wait::ld.sync.aligned;"
SCORES = (435, 2359)
"""Lines of the last load of a row's scores: with the causal mask, and without."""


def waiting(loads: list[Statement]) -> list[Fault]:
    """A wait behind each load. As a fault is: one line becomes another."""
    return [Fault(Planted.WAIT_DROPPED, load.line, load.text, f"{load.text} {WAIT}") for load in loads]


@pytest.mark.promise("The PTX emulator finds hazards in unmodified kernels of Triton, cuDNN and xformers.")
def test_stores_over_loads_that_nothing_waits_for_are_found_and_waits_mend_it(tmp_path: Path) -> None:
    """results/nvptx_hazards.md has the lines. PTX ISA 9.1, 9.7.16.6.4.5."""
    with PlantedPtx(KERNEL, build_registry(), tmp_path, seconds=60.0) as subject:
        assert subject.plain.verdict == "HAZARD"
        assert {found["kind"] for found in subject.plain.findings} == {"missing-wait"}
        assert all("no tcgen05.wait::ld between" in found["text"] for found in subject.plain.findings)
        lines = {found["address"] for found in subject.plain.findings}
        assert {3180, 4226, 5506, 8975} <= lines
        assert len(lines) == 23
        every = [s for s in statements(subject.text) if s.opcode.startswith("tcgen05.")]
        loads = [
            s for s, after in pairwise(every)
            if s.opcode.startswith("tcgen05.ld") and not after.opcode.startswith(("tcgen05.ld", "tcgen05.wait::ld"))
        ]  # fmt: skip
        assert len(loads) == 19
        mended = subject.run(*waiting(loads))
        assert (mended.verdict, mended.findings) == ("PASSED", ())
        scores = subject.run(*waiting([load for load in loads if load.line + 1 in SCORES]))
        assert {found["address"] for found in scores.findings} == {line for line in lines if 5500 < line < 6000}
