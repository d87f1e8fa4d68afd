"""Every protection that ``mends.toml`` lists is shown to be needed: a copy of the program without it fails the named test."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "fmha_cli",
    "arch_specs",
    "tests",
    "plugins",
    "benchmarks",
    "docs",
    "results",
    "tools",
    "README.md",
    "conftest.py",
    "pyproject.toml",
    "CHANGELOG.md",
)
_PASSED = re.compile(r"(\d+) (passed|failed|error)")


@dataclass(frozen=True)
class Mend:
    """A protection, and how it is taken away.

    Attributes:
        line: the promise to which it belongs.
        what: the protection in words.
        file: the file in ``fmha_cli``.
        old: a piece of its text that occurs once.
        new: the piece without the protection.
        test: the node of a test, or of several, of which one fails then at least.
    """

    line: str
    what: str
    file: str
    old: str
    new: str
    test: str

    @property
    def node(self) -> str:
        """The test as pytest gets it; a file without a folder is next to this one."""
        return self.test if self.test.startswith("tests/") else f"tests/faults/{self.test}"

    @property
    def place(self) -> str:
        return f"fmha_cli/{self.file}"


DATA = tomllib.loads(Path(__file__).with_name("mends.toml").read_text("utf-8"))
MENDS = [Mend(**row) for row in DATA["mend"]]


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_line_has_mends() -> None:
    counts = Counter(mend.line for mend in MENDS)
    assert set(counts) == set(DATA["lines"])
    assert len(MENDS) >= 100
    assert len({(mend.line, mend.what) for mend in MENDS}) == len(MENDS)


@pytest.mark.sampled(40, ci="all")
@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.what)
def test_a_mend_names_text_and_a_test_that_exist(mend: Mend) -> None:
    text = (ROOT / mend.place).read_text("utf-8")
    assert text.count(mend.old) == 1, f"{mend.place} holds the piece {text.count(mend.old)} times: write this row anew"
    ast.parse(text.replace(mend.old, mend.new))
    file, _, name = mend.node.partition("::")
    assert not name or name.partition("[")[0] in functions_of(file)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program and its tests, in which imports find the copy."""
    place = tmp_path_factory.mktemp("mends") / "copy"
    place.mkdir()
    for name in COPIED:
        source, ignore = ROOT / name, shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(source, place / name, ignore=ignore) if source.is_dir() else shutil.copy(source, place / name)
    return place


def counts_of(copy: Path, *nodes: str) -> tuple[Counter[str], str]:
    """How many of these tests passed, failed or did not start in the copy, and what pytest said."""
    paths = [copy, *sorted((copy / "plugins").glob("*/src"))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        "--timeout=300",
        "-m",
        "slow or not slow",
    ]
    done = subprocess.run([*argv, *nodes], cwd=copy, env=env, capture_output=True, text=True, check=False)
    said = done.stdout[-3000:] + done.stderr[-1000:]
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return Counter({kind: int(count) for count, kind in _PASSED.findall(last)}), said


@pytest.fixture
def without(copy: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The copy without one protection."""
    mend: Mend = request.param
    file = copy / mend.place
    whole = file.read_text("utf-8")
    file.write_text(whole.replace(mend.old, mend.new), "utf-8")
    yield copy
    file.write_text(whole, "utf-8")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_named_test_passes_with_all_mends(copy: Path) -> None:
    counts, said = counts_of(copy, *sorted({mend.node for mend in MENDS}))
    assert counts["passed"] >= len({mend.node for mend in MENDS}), said
    assert not counts["failed"] + counts["error"], said


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("without", "mend"), [(mend, mend) for mend in MENDS], indirect=["without"], ids=lambda mend: mend.what
)
def test_without_a_mend_its_test_fails(without: Path, mend: Mend) -> None:
    counts, said = counts_of(without, mend.node)
    assert counts["failed"], said
    assert not counts["error"], said
