"""``docs/promises.md`` names a test for every promise: the tests exist, and the quotes of README stand there."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "promises.md").read_text("utf-8")
_ROW = re.compile(r"^\| (.+?) \| (`.+`) \|$", re.MULTILINE)


def rows(page: str, under: str = "") -> list[tuple[str, list[str]]]:
    """The promises below headings that begin with ``under``, each with its tests."""
    parts = [part for part in page.split("\n## ")[1:] if part.startswith(under)]
    return [(promise, re.findall(r"`([^`]+)`", tests)) for part in parts for promise, tests in _ROW.findall(part)]


def flat(text: str) -> str:
    return " ".join(text.split())


@cache
def functions_of(file: str) -> frozenset[str]:
    return frozenset(n.name for n in ast.parse((ROOT / file).read_text("utf-8")).body if isinstance(n, ast.FunctionDef))


def missing(test: str) -> str | None:
    """What is missing of ``file::name`` or ``file``; None if nothing is."""
    file, _, name = test.partition("::")
    file = file if "/" in file else f"tests/faults/{file}"
    if not (ROOT / file).is_file():
        return f"no file {file}"
    if not name.startswith("test_") if name else not any(f.startswith("test_") for f in functions_of(file)):
        return f"no test: {test}"
    return None if not name or name in functions_of(file) else f"no {name} in {file}"


@pytest.mark.parametrize("promise", rows(PAGE), ids=lambda row: row[0][:60])
def test_every_named_test_exists(promise: tuple[str, list[str]]) -> None:
    assert [found for test in promise[1] if (found := missing(test))] == []


@pytest.mark.parametrize("quote", [quote for quote, _ in rows(PAGE, "README")], ids=lambda quote: quote[:60])
def test_every_quote_stands_in_readme(quote: str) -> None:
    assert quote in flat(README)


def test_every_protected_line_is_on_the_page() -> None:
    lines = tomllib.loads((ROOT / "tests" / "faults" / "mends.toml").read_text("utf-8"))["lines"]
    assert [line for line in lines.values() if line not in dict(rows(PAGE))] == []


def test_what_the_page_must_notice() -> None:
    assert missing("test_recheck.py::test_nothing") == "no test_nothing in tests/faults/test_recheck.py"
    assert missing("tests/cli/test_nothing.py") == "no file tests/cli/test_nothing.py"
    assert missing("tests/support/served.py") == "no test: tests/support/served.py"
