"""``promises.md``: what a user can rely on, and the tests that hold it, from the markers ``promise`` of the tests.

Markers are read from the text of the modules, so nothing is imported or collected.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .markdown import code, page, section, table

ROOT = Path(__file__).resolve().parents[2]
AREAS: Mapping[str, str] = {
    "tests/faults tests/oracle tests/bench tests/run/workers tests/peers": "Verdicts, timing and comparison",
    "tests/cli tests/report tests/pages tests/acceptance tests/domain": "Commands and their output",
    "tests/results tests/system": "Stored runs and files",
    "tests/sweeps": "Sweeps",
    "tests/tune": "Tuning",
    "tests/run tests/discovery": "Choosing and running",
    "tests/backends tests/codegen tests/gpu tests/parity": "Backends",
    "tests/sources tests/toolchain": "Sources, builds and the cache",
    "plugins": "Plugins and emulators",
    "tests benchmarks": "This repository",
}
"""Folders of tests -> a heading of the page. The first that fits counts."""
FOLDERS = ("tests", "plugins", "benchmarks")
README = "README: "
"""Begins a promise that quotes README."""


@dataclass(frozen=True)
class Promise:
    """A promise, and the ids of the tests that hold it."""

    text: str
    tests: tuple[str, ...]

    @property
    def area(self) -> str:
        """The heading under which most of its tests belong."""
        if self.text.startswith(README):
            return "README"
        areas = [_area(test) for test in self.tests]
        return max(dict.fromkeys(areas), key=areas.count)


def promises(root: Path = ROOT) -> list[Promise]:
    """Every promise of the tests below a folder, in the order of their modules.

    Raises:
        ValueError: a marker holds something else than texts.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(path for folder in FOLDERS for path in root.glob(f"{folder}/**/test_*.py")):
        text = path.read_text("utf-8")
        if "mark.promise(" in text:
            name = path.relative_to(root).as_posix()
            for promise, test in _marked(ast.parse(text), name):
                found.setdefault(promise, []).append(test)
    return [Promise(text, tuple(tests)) for text, tests in found.items()]


def pages() -> dict[str, str]:
    """The page."""
    every = promises()
    sections = [
        section(area, table(("promise", "held by"), (_row(one) for one in every if one.area == area)))
        for area in ("README", *AREAS.values())
    ]
    about = (
        "What you can rely on, and the tests that fail where it does not hold. A test says so with the marker `promise`. Tests that the "
        "default run leaves out run with `python -m pytest -m slow`."
    )
    return {"promises.md": page("Promises", about, *sections)}


def _row(promise: Promise) -> tuple[str, str]:
    return promise.text.removeprefix(README), "<br>".join(code(test) for test in promise.tests)


def _area(test: str) -> str:
    return next(area for folders, area in AREAS.items() if any(test.startswith(f"{f}/") for f in folders.split()))


def _marked(tree: ast.Module, file: str) -> Iterator[tuple[str, str]]:
    """Each promise of a module with the id of the test, or of the module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield from ((text, f"{file}::{node.name}") for mark in node.decorator_list for text in _texts(mark, file))
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets
        ):
            marks = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
            yield from ((text, file) for mark in marks for text in _texts(mark, file))


def _texts(mark: ast.expr, file: str) -> list[str]:
    """The texts of a marker ``promise``; none of another."""
    if not (isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise"):
        return []
    texts = [one.value for one in mark.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if not texts or len(texts) != len(mark.args) or mark.keywords:
        raise ValueError(f"{file}: line {mark.lineno}: a promise is a text")
    return texts
