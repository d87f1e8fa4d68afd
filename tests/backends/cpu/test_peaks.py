"""The peak loops build for every architecture and give plausible figures on this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS, detect
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.backends.cpu.peaks import build_peak_loops, vector_bits
from fmha_cli.codegen.cpu.parts import emit_peaks
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.measuring import Canary, PeakLoops
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.run.supervisor import Supervisor


def measured() -> Iterator[Any]:
    """This machine's architectures. Measuring one keeps a core busy for seconds: CI has the first, which is chosen, and the last."""
    archs = [arch for arch in ARCHS if arch in detect().archs]
    for arch in archs:
        in_ci = [pytest.mark.ci] if arch in (archs[0], archs[-1]) else []
        yield pytest.param(arch, marks=(pytest.mark.slow, *in_ci))


def test_the_backend_has_loops() -> None:
    assert isinstance(CpuBackend(), PeakLoops)
    assert isinstance(CpuBackend(), Canary)


@pytest.mark.promise("A peak is measured where a share of it is shown, and again where the machine was busy.")
@pytest.mark.parametrize("arch", list(measured()))
def test_loops_build_and_run(arch: str, shared_cache: Path) -> None:
    device = DeviceFacts(id="cpu", archs=(arch,))
    artifact = build_peak_loops(device, BuildContext(cache_root=shared_cache))
    with Supervisor() as supervisor:
        found = supervisor.peaks("fmha_cli.backends.cpu", "cpu", artifact, 1)
        rates = [
            supervisor.canary("fmha_cli.backends.cpu", "cpu", artifact, 1, memory=memory) for memory in (False, True)
        ]
    assert found["flops"]["fp32"] > 1e8
    assert found["bandwidth"] > 1e8
    assert all(rate is not None and rate > 1e8 for rate in rates)


@pytest.mark.slow
@pytest.mark.ci
def test_a_canary_that_does_not_run_is_unknown(shared_cache: Path) -> None:
    artifact = build_peak_loops(detect(), BuildContext(cache_root=shared_cache))
    with Supervisor() as supervisor:
        assert supervisor.canary("fmha_null", "null", artifact, 1, memory=False) is None


@pytest.mark.slow
@pytest.mark.ci
def test_loops_that_do_not_run_are_an_environment_problem(shared_cache: Path) -> None:
    artifact = build_peak_loops(detect(), BuildContext(cache_root=shared_cache))
    with Supervisor() as supervisor:
        with pytest.raises(EnvironmentProblem, match="peak loops"):
            supervisor.peaks("fmha_null", "null", artifact, 1)
        with pytest.raises(EnvironmentProblem, match="peak loops"):
            supervisor.peaks("fmha_cli.backends.cpu", "cpu", replace(artifact, sha256="0"), 1)


def test_each_width_and_product_has_its_own_text() -> None:
    """``aarch64`` and ``generic`` have the same: vectors of 128 bits, no dot products."""
    wanted = {(vector_bits(load_arch(a)), a.endswith(("bf16", "amx")), a.endswith("amx")) for a in ARCHS}
    texts = {emit_peaks(bits, dot=dot, tiles=tiles) for bits, dot, tiles in wanted}
    assert len(texts) == len(wanted) == len(ARCHS) - 1
