"""The modules that a plugin with GPU kernels may import; none of them is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

NAMES = (
    *("Call", "GpuSession", "Mirror", "noted"),
    *("CubinBackend", "Cuda", "CudaSession", "Expected", "Launch", "StageTimer", "Upstream", "probe_cuda"),
    *("Hip", "probe_hip"),
)


@pytest.mark.parametrize("name", NAMES)
def test_the_api_has_it(name: str) -> None:
    api = import_module("fmha_cli.api")
    assert name in api.__all__
    assert getattr(api, name).__name__ == name


def test_the_api_loads_no_backend_by_itself() -> None:
    code = "import sys, fmha_cli.api; print([n for n in sys.modules if n.startswith(('fmha_cli.backends.cuda', 'fmha_cli.backends.gpu', 'fmha_cli.backends.hip'))])"
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert out.stdout.strip() == b"[]"
