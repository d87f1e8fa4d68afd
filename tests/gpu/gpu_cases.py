"""The cases of ``benchmarks/gpu_check.py`` for the tests beside it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load_gpu_check() -> ModuleType:
    """``benchmarks/gpu_check.py`` as a module: its cases are tested here."""
    name = "gpu_check"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / "gpu_check.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


AMD_CASES = load_gpu_check().AMD.cases
