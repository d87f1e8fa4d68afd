"""The plugin that ``docs/writing-a-backend.md`` shows: at most 60 lines, and it passes the published tests."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from fmha_cli import api, conformance

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing-a-backend.md"
LINES = 60


def shown() -> str:
    """The block of the page that begins with the docstring of the plugin."""
    (block,) = re.findall(
        r'^```python\n("""Attention in numpy.*?)^```$', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(block)


def test_it_is_short() -> None:
    assert len(shown().splitlines()) <= LINES


def test_it_passes_the_conformance_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy_attention.py").write_text(shown(), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    backend: api.LibraryBackend = importlib.import_module("numpy_attention").BACKEND
    subject = conformance.Subject(backend, entry="numpy_attention", cache_root=tmp_path / "cache")
    for check in conformance.CHECKS:
        check(subject)
    served = [r for r in conformance.judged(subject, conformance.library_problems(3, 30)) if r.kernel is not None]
    assert len(served) >= 3
    assert {record.verdict for record in served} == {api.Verdict.PASSED}
