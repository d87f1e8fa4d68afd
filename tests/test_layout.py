"""Who may import whom outside the package: tests and benchmarks keep apart, and packages of tests have distinct names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

BENCHMARKS = "benchmarks"


def imported(text: str) -> Iterator[str]:
    """The modules that a text imports anywhere, also within functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)


def package_of(path: str) -> str:
    """Whose file it is: ``tests``, ``plugins`` for the tests of a plugin, ``benchmarks``, ``benchmarks/tests``, or nobody's."""
    top, *rest = Path(path).parts
    if top == "plugins":
        return "plugins" if rest[1] == "tests" or rest[1].endswith("_tests") else ""
    if top == BENCHMARKS:
        return f"{BENCHMARKS}/tests" if rest[0] == "tests" else BENCHMARKS
    return top if top == "tests" else ""


def benchmarks(root: Path) -> set[str]:
    """The names under which a benchmark is imported."""
    return {path.stem for path in (root / BENCHMARKS).iterdir() if path.suffix == ".py" or path.is_dir()} - {"tests"}


def wrong_imports(root: Path) -> list[str]:
    """``file: module`` for each import across the border."""
    theirs = {*benchmarks(root), BENCHMARKS}
    wrong = []
    for path in sorted(path for top in ("tests", "plugins", BENCHMARKS) for path in (root / top).rglob("*.py")):
        name = str(path.relative_to(root))
        whose = package_of(name)
        for module in imported(path.read_text("utf-8")) if whose else ():
            first = module.partition(".")[0]
            tests = first == "tests" or first.endswith("_tests")
            allowed = {
                "tests": first not in theirs,
                "plugins": first not in theirs,
                BENCHMARKS: not tests,
                f"{BENCHMARKS}/tests": not tests or module == "tests.conftest" or module.startswith("tests.support"),
            }
            if not allowed[whose]:
                wrong.append(f"{name}: {module}")
    return wrong


@pytest.mark.slow
@pytest.mark.ci
def test_tests_and_benchmarks_import_nothing_of_each_other() -> None:
    assert wrong_imports(ROOT) == []


@pytest.mark.parametrize(
    ("file", "text", "module"),
    [
        ("tests/cli/test_it.py", "def test_it():\n    from speed import times", "speed"),
        ("tests/support/x.py", "import nvidia_check.page", "nvidia_check.page"),
        ("tests/x.py", "from benchmarks import speed", "benchmarks"),
        ("plugins/fmha-a/fmha_a_tests/test_it.py", "import speed", "speed"),
        ("plugins/fmha-a/tests/test_it.py", "import speed", "speed"),
        ("benchmarks/speed.py", "from tests.support.paths import ROOT", "tests.support.paths"),
        ("benchmarks/nvidia_check/page.py", "import fmha_a_tests.support", "fmha_a_tests.support"),
        ("benchmarks/tests/test_it.py", "from tests.cli.test_app import x", "tests.cli.test_app"),
        ("benchmarks/tests/test_it.py", "import speed\nfrom tests.support.paths import ROOT", None),
        ("tests/x.py", "from tools.results import page", None),
        ("plugins/fmha-a/src/fmha_a/__init__.py", "import speed", None),
    ],
)
def test_a_planted_import_is_noticed(tmp_path: Path, file: str, text: str, module: str | None) -> None:
    for name in ("tests", "plugins", "benchmarks/nvidia_check", "benchmarks/tests"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "benchmarks" / "speed.py").touch()
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    assert wrong_imports(tmp_path) == ([] if module is None else [f"{file}: {module}"])
