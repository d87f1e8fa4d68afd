"""The kernels execute on emulated AMD devices, and faults planted in their text are found. All of it is slow.

CI runs a drawn part of it: one problem on each architecture and two faults. The check ``triton_check`` executes every kind of
kernel on every architecture.
"""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")
if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from fmha_cli import api
from fmha_triton_tests.support.emulated_runs import FAULTS, drawn, faulty, is_noticed, record, rows

pytestmark = pytest.mark.slow
ARCHS = ("gfx942", "gfx1201")


@pytest.mark.promise("Triton's and Gluon's kernels compile without a GPU and pass on the emulators.")
@pytest.mark.parametrize(("arch", "flags"), rows(ARCHS))
def test_a_kernel_passes(arch: str, flags: str, cache: str) -> None:
    found = record(flags, arch, cache)
    assert found.verdict is api.Verdict.PASSED, found.notes
    assert not found.findings


@pytest.mark.promise("Triton's and Gluon's kernels compile without a GPU and pass on the emulators.")
@pytest.mark.parametrize("name", drawn([(name,) for name in FAULTS], 2, "faults"))
def test_a_planted_fault_is_found(name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_noticed(faulty(name, "gfx942", cache, monkeypatch))
