"""``docs/how-to/write-a-backend.md`` shows a plugin that is short and passes the published tests; the plugin API has every protocol."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from fmha_cli import api, conformance, domain, plugin
from fmha_cli.conformance import checks

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "how-to" / "write-a-backend.md"
LINES = 60


def shown() -> str:
    """The block of the page that begins with the docstring of the plugin."""
    (block,) = re.findall(
        r'^```python\n("""Attention in numpy.*?)^```$', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(block)


def test_it_is_short() -> None:
    assert len(shown().splitlines()) <= LINES


@pytest.mark.promise("A plugin backend of less than 150 lines passes the published conformance tests.")
@pytest.mark.parametrize(
    "claims",
    [
        pytest.param(4, marks=[pytest.mark.slow, pytest.mark.ci]),
        pytest.param(checks.RUN, marks=pytest.mark.slow),
    ],
)
def test_it_passes_the_conformance_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claims: int) -> None:
    monkeypatch.setattr(checks, "RUN", claims)
    (tmp_path / "numpy_attention.py").write_text(shown(), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    backend: plugin.LibraryBackend = importlib.import_module("numpy_attention").BACKEND
    subject = conformance.Subject(backend, entry="numpy_attention", cache_root=tmp_path / "cache")
    for check in conformance.CHECKS:
        check(subject)
    served = [r for r in conformance.judged(subject, conformance.library_problems(3, 30)) if r.kernel is not None]
    assert len(served) >= 3
    assert {record.verdict for record in served} == {api.Verdict.PASSED}


@pytest.mark.promise("Every protocol that a backend may implement is documented.")
def test_the_plugin_api_has_every_protocol_that_a_backend_may_implement() -> None:
    found = {
        name
        for path in Path(domain.__file__).parent.glob("*.py")
        for name in re.findall(r"^@runtime_checkable\nclass (\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    shown = re.findall(r"^### (\w+)$", (DOCS / "reference" / "plugin-api.md").read_text("utf-8"), re.MULTILINE)
    assert len(found) > 15
    assert found - set(shown) == set()
