"""The modules that a plugin with GPU kernels may import; none of them is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

NAMES = (
    *("Call", "GpuSession", "Mirror", "noted"),
    *("CudaKernel", "CudaSession", "probe_cuda"),
    *("HipKernel", "HipSession", "probe_hip"),
)


@pytest.mark.parametrize("name", NAMES)
def test_plugins_may_import_it(name: str) -> None:
    plugin = import_module("fmha_cli.plugin")
    assert name in plugin.__all__
    assert getattr(plugin, name).__name__ == name


def test_the_stable_names_load_no_backend_by_themselves() -> None:
    code = "import sys, fmha_cli.api, fmha_cli.plugin; print([n for n in sys.modules if n.startswith(('fmha_cli.backends.cuda', 'fmha_cli.backends.gpu', 'fmha_cli.backends.hip'))])"
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert out.stdout.strip() == b"[]"
