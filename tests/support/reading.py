"""Which test files a run need not read: collecting every one of them takes each worker a quarter of a minute.

A file is left out if a look at its text shows that the run's mark selects nothing in it. ``-m "not slow"`` (README's command) leaves out
files that are slow as a whole, those of the emulators for one. ``-m ci`` reads files that name the mark, themselves or in what they
import from ``support``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Set
from functools import cache
from pathlib import Path

from tests.support.emulator_suite import FOLDERS
from tests.support.paths import ROOT
from tools.passed_tests import name_of

_CI = re.compile(r"mark\.ci\b|mark\.sampled\(\d+, ci=")
_IMPORTED = re.compile(r"^from ((?:tests|\w+_tests)\.support[\w.]*) import", re.MULTILINE)


def leave_out(path: Path, marks: str, again: Set[str], root: Path = ROOT) -> bool:
    """Whether a run with ``-m MARKS`` selects nothing in a test file; ``again`` has names, from ``root``, of tests that ``-m ci`` selects too."""
    if not path.is_file() or not path.name.startswith("test_") or marks not in ("not slow", "ci"):
        return False
    emulator = any(path.is_relative_to(folder) for folder in FOLDERS)
    if marks == "not slow":
        return emulator or _wholly_slow(path.read_text("utf-8"))
    return not (emulator or _may_have_ci(path) or _named(path.relative_to(root), again))


def _wholly_slow(text: str) -> bool:
    """Whether a module marks all its tests as slow; a text within it that looks like such a line does not count."""
    return "pytestmark" in text and any(
        isinstance(part, ast.Assign)
        and ast.unparse(part.targets[0]) == "pytestmark"
        and re.search(r"\bmark\.slow\b", ast.unparse(part.value)) is not None
        for part in ast.parse(text).body
    )


def _named(path: Path, again: Set[str]) -> bool:
    """Whether a report names this file or one of its tests (``tests.cli.test_app::test_it``)."""
    own = name_of(str(path))
    return any(name == own or name.startswith((own + "::", own + ".")) for name in again)


def _may_have_ci(path: Path) -> bool:
    """Whether the mark stands in a file, in the settings of its folder, or in what either imports from ``support``, however far away."""
    own = [path, *path.parent.glob("conftest.py")]
    seen, open_ = {*own}, [*own]
    while open_:
        has, imported = _looked_at(open_.pop())
        if has:
            return True
        open_ += imported - seen
        seen |= imported
    return False


@cache
def _looked_at(path: Path) -> tuple[bool, frozenset[Path]]:
    """Whether the mark stands in a file, and the modules of ``support`` that it imports."""
    text = path.read_text("utf-8")
    return _CI.search(text) is not None, frozenset(map(_module, _IMPORTED.findall(text)))


def _module(name: str) -> Path:
    """The file of a module of ``tests`` or of a plugin's tests."""
    top = ROOT if name.startswith("tests.") else next((ROOT / "plugins").glob(f"*/{name.partition('.')[0]}")).parent
    place = top.joinpath(*name.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
