"""README's test command collects every test file; pytest skips folders by name (``build``, ``dist``, ``venv``)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = ("test_*.py", "*_test.py")
"""The names that pytest takes for test files (``python_files``)."""
RECORDER = """
from pathlib import Path

import pytest


class Seen(pytest.Module):
    def collect(self):
        return []


def pytest_pycollect_makemodule(module_path, parent):
    with Path("SEEN").open("a", encoding="utf-8") as file:
        file.write(f"{module_path}\\n")
    return Seen.from_parent(parent, path=module_path)
"""
"""A plugin that records each module that pytest would import, and imports none."""


def pytest_words() -> list[str]:
    """The words after ``python -m pytest`` in README's second command."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return shlex.split(blocks[1].rpartition("python -m pytest")[2])


def collected(checkout: Path, scratch: Path) -> set[str]:
    """The test files that README's command and the suites of CI would collect in a checkout."""
    seen = scratch / "seen.txt"
    (scratch / "recorder.py").write_text(RECORDER.replace("SEEN", str(seen)), "utf-8")
    argv = [sys.executable, "-m", "pytest", *pytest_words(), "--collect-only", "-n", "0", "-m", "", "-p", "recorder"]
    env = {"PYTHONPATH": str(scratch), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 5, f"{done.stdout}{done.stderr}"  # the modules appear to contain no test
    return {str(Path(line).relative_to(checkout)) for line in seen.read_text("utf-8").splitlines()}


def on_disk(checkout: Path) -> set[str]:
    """The test files in ``tests/`` and in every plugin."""
    folders = [checkout / "tests", *(checkout / "plugins").iterdir()]
    return {str(p.relative_to(checkout)) for folder in folders for name in PATTERNS for p in folder.rglob(name)}


@pytest.mark.promise("Every command that a page shows works as shown.")
@pytest.mark.slow
@pytest.mark.ci
def test_every_test_file_is_collected(tmp_path: Path) -> None:
    found = collected(ROOT, tmp_path)
    assert len(found) > 200
    assert on_disk(ROOT) - found == set()


LEFT_OUT = ("tests/build", "tests/domain/dist", "plugins/fmha-new/tests/venv")


@pytest.mark.slow
@pytest.mark.ci
def test_a_folder_that_pytest_leaves_out_is_noticed(tmp_path: Path) -> None:
    checkout, scratch = tmp_path / "checkout", tmp_path / "scratch"
    scratch.mkdir()
    for place in ("tests", "plugins/fmha-new/tests", *LEFT_OUT):
        (checkout / place).mkdir(parents=True, exist_ok=True)
        (checkout / place / f"test_{place.replace('/', '_')}.py").write_text("", "utf-8")
    (checkout / LEFT_OUT[-1] / "pyvenv.cfg").write_text("", "utf-8")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    missed = on_disk(checkout) - collected(checkout, scratch)
    assert missed == {f"{folder}/test_{folder.replace('/', '_')}.py" for folder in LEFT_OUT}


def pytest_in(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of ``test_it.py`` in a folder, under the project's settings."""
    argv = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), *words]
    env = {**os.environ, **variables}
    return subprocess.run([*argv, "test_it.py"], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("marks", ["ci", "slow, ci"])
def test_a_test_of_ci_alone_is_noticed(marks: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    lines = ["import pytest", *(f"@pytest.mark.{mark}" for mark in marks.split(", ")), "def test_it() -> None: ..."]
    (tmp_path / "test_it.py").write_text("\n".join(lines), "utf-8")
    done = pytest_in(tmp_path, "-m", "ci")
    assert (done.returncode, "marked ci and not slow" in done.stderr + done.stdout) == (
        (4, True) if marks == "ci" else (0, False)
    )


@pytest.mark.slow
@pytest.mark.ci
def test_processes_that_tests_start_keep_compiled_modules(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    lines = ["import os", "def test_it() -> None:", '    assert "PYTHONDONTWRITEBYTECODE" not in os.environ']
    (tmp_path / "test_it.py").write_text("\n".join(lines), "utf-8")
    done = pytest_in(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stdout


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports a test file by its name below the topmost package, so two files of one such name conflict."""
    names = [imported_as(ROOT / name) for name in on_disk(ROOT)]
    assert sorted(names) == sorted(set(names))
    assert imported_as(Path(__file__)) == "tests.test_collection"


def imported_as(path: Path) -> str:
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return ".".join(path.relative_to(folder).with_suffix("").parts)


def test_no_test_imports_a_conftest_by_its_bare_name() -> None:
    """``conftest`` is whichever folder's pytest imported first, so such a file fails when it is run together with
    another folder.
    """
    found = [path for root in ("tests", "plugins") for path in (ROOT / root).rglob("*.py")]
    text = re.compile(r"^\s*(from|import) conftest\b", re.MULTILINE)
    assert [str(path) for path in found if text.search(path.read_text("utf-8"))] == []
