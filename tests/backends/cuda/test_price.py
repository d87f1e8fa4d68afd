"""What a small backend costs: the lines of its own Python, docstrings counted, and the limits that the guide sets for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fmha_cli.backends import cuda

ROOT = Path(__file__).resolve().parents[3]
LIMITS = re.findall(r"`(\w+)` has at most (\d+) lines", cuda.__doc__ or "")


def own_lines(package: Path, backend: str) -> int:
    """Lines of the modules of a backend. The texts of kernels and shims are not Python, and facts are in
    ``arch_specs``.
    """
    files = (file for part in ("backends", "codegen") for file in (package / part / backend).rglob("*.py"))
    return sum(len(file.read_text("utf-8").splitlines()) for file in files)


def test_the_guide_sets_a_limit_for_both() -> None:
    assert {name for name, _ in LIMITS} == {"mem_efficient", "cudnn_oss"}


@pytest.mark.parametrize(("backend", "limit"), LIMITS)
def test_own_python_stays_below_the_limit(backend: str, limit: str) -> None:
    assert 0 < own_lines(ROOT / "fmha_cli", backend) <= int(limit)


def test_modules_of_both_packages_are_counted(tmp_path: Path) -> None:
    texts = {
        "backends/one/a.py": "a\nb",
        "codegen/one/deep/b.py": "c\n",
        "codegen/one/k.h": "d",
        "codegen/two/b.py": "e",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert own_lines(tmp_path, "one") == 3
