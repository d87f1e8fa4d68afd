"""The published conformance tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fmha_openvino import BACKEND

from fmha_cli import conformance


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[conformance.Subject], None], tmp_path: Path) -> None:
    check(conformance.Subject(BACKEND, entry="fmha_openvino", cache_root=tmp_path / "cache"))
