"""The kernels' PTX executes on emulated NVIDIA devices, and faults planted in their text are found. What executes is slow.

CI runs a drawn part of it: one problem on each architecture and one fault. The check ``triton_check`` executes every kind of
kernel on every architecture.
"""

from __future__ import annotations

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu import NvptxEmulator
from fmha_triton import TritonBackend

from fmha_cli import api, plugin
from fmha_triton_tests.support.emulated_runs import FAULTS, drawn, faulty, is_noticed, needs_triton, record, rows
from tests.checks.triton_check import device_of
from tests.checks.triton_problems import NVIDIA

ARCHS = ("sm_80", "sm_89", "sm_120")


@pytest.mark.promise("Triton's and Gluon's kernels compile without a GPU and pass on the emulators.")
def test_every_architecture_is_executed() -> None:
    """The check ``triton_check`` runs all architectures of NVIDIA that have kernels."""
    own = {arch for arch in TritonBackend(driven=False).archs() if arch.startswith("sm_")}
    assert own == {*NVIDIA}
    devices = {device.id: device for device in NvptxEmulator().devices()}
    assert all(arch in devices[device_of(arch)].archs for arch in NVIDIA)


def test_a_device_of_each_vendor_gets_its_own_session() -> None:
    """The same backend runs on emulators of both runtimes."""
    assert set(TritonBackend(driven=False).runtimes) == {"cuda", "hip"}


@pytest.mark.promise("Triton's and Gluon's kernels compile without a GPU and pass on the emulators.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize(("arch", "flags"), rows(ARCHS))
def test_a_kernel_passes(arch: str, flags: str, cache: str) -> None:
    found = record(flags, arch, cache)
    assert found.verdict is api.Verdict.PASSED, found.notes
    assert not found.findings
    assert found.executed


@pytest.mark.promise("Triton's and Gluon's kernels compile without a GPU and pass on the emulators.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", drawn([(name,) for name in FAULTS], 1, "faults of NVIDIA"))
def test_a_planted_fault_is_found(name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_noticed(faulty(name, "sm_80", cache, monkeypatch))


@pytest.mark.promise("Rougher sums of 8-bit floats pass only where the architecture's facts say so.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
def test_fp8_passes_with_the_short_sums_of_tensor_cores(arch: str, cache: str) -> None:
    """13 bits behind the point: the LSE of large scores has 30 times the error that other architectures may have."""
    problem = api.Problem.from_cli("-H 2 -s 64 -d 128 --dtype fp8_e4m3 --qscale tensor --lse")
    options = {"backend": "triton", "device": device_of(arch), "emu_arith": plugin.Arithmetic.HARDWARE}
    (found,) = api.run(problem, command="validate", cache_root=cache, **options)
    assert found.verdict is api.Verdict.PASSED, found.notes
