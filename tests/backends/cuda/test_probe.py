"""The architectures that a device runs, and the message if no device can be queried."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from fmha_cli.backends.cuda.cubin_backend import DRIVERS, may_be_driven
from fmha_cli.backends.cuda.driver import archs_of, probe_cuda
from fmha_cli.backends.gpu.devices import report_undriven
from fmha_cli.domain.arch import arch_names
from fmha_cli.domain.device import State

KNOWN = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a")


@pytest.mark.parametrize(
    ("capability", "archs"),
    [
        ((8, 0), ("sm_80",)),
        ((8, 6), ("sm_86", "sm_80")),
        ((8, 7), ("sm_87",)),
        ((8, 9), ("sm_89", "sm_86", "sm_80")),
        ((9, 0), ("sm_90a", "sm_90")),
        ((10, 0), ("sm_100a", "sm_100")),
        ((10, 3), ("sm_103a", "sm_103", "sm_100")),
        ((11, 0), ("sm_110",)),
        ((12, 0), ("sm_120a", "sm_120")),
        ((12, 1), ("sm_121", "sm_120")),
        ((7, 5), ("sm_75",)),
    ],
)
def test_archs(capability: tuple[int, int], archs: tuple[str, ...]) -> None:
    assert archs_of(capability, KNOWN) == archs
    assert set(KNOWN) <= set(arch_names())


def test_without_cuda_python_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    found = probe_cuda()
    assert (found.state, found.devices) == (State.MISSING, ())
    assert "cuda-python is not installed" in (found.why or "")
    assert "fmha[cuda]" in (found.help or "")


def test_a_broken_cuda_python_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise ImportError("libstdc++.so.6: version `GLIBCXX_3.4.30' not found")

    monkeypatch.setattr(importlib, "import_module", broken)
    found = probe_cuda()
    assert found.state is State.MISSING
    assert "does not import" in (found.why or "")
    assert "GLIBCXX" in (found.why or "")


def test_a_driver_is_looked_for_by_files_alone(tmp_path: Path) -> None:
    device, folder = tmp_path / "nvidiactl", tmp_path / "lib"
    folder.mkdir()
    environ = {"LD_LIBRARY_PATH": f"/nonexistent::{folder}"}
    assert not may_be_driven((device,), environ)
    (folder / "libcuda.so.1").touch()
    assert may_be_driven((device,), environ)
    assert not may_be_driven((device,), {})
    device.touch()
    assert may_be_driven((device,), {})
    said = report_undriven("NVIDIA", DRIVERS[0])
    assert said.state is State.NO_DEVICE
    assert "nvidiactl" in (said.why or "")
    assert "--arch" in (said.help or "")
