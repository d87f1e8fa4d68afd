"""The peak loops build for every architecture and give sane figures on this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.arch import load_arch
from fmha_cli.backends.cpu.arch_detect import ARCHS, detect
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.backends.cpu.peaks import build_peak_loops, vector_bits
from fmha_cli.codegen.cpu.peaks import emit_peaks
from fmha_cli.device import DeviceFacts
from fmha_cli.execution.peak_probe import answer
from fmha_cli.protocols import BuildContext, PeakLoops


def test_the_backend_has_loops() -> None:
    assert isinstance(CpuBackend(), PeakLoops)


@pytest.mark.parametrize("arch", [a for a in ARCHS if a in detect().archs])
def test_loops_build_and_run(arch: str, shared_cache: Path) -> None:
    device = DeviceFacts(id="cpu", archs=(arch,))
    artifact = build_peak_loops(device, BuildContext(cache_root=shared_cache))
    text = answer(
        f'{{"entry": "fmha_cli.backends.cpu", "backend": "cpu", "artifact": "{artifact.path}", "threads": 1}}'
    )
    assert '"bandwidth":' in text
    assert '"fp32":' in text


def test_each_architecture_has_its_own_text() -> None:
    texts = {emit_peaks(vector_bits(load_arch(a)), dot=a.endswith("bf16")) for a in ARCHS}
    assert len(texts) == len(ARCHS)
