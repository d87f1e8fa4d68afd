"""Where the tests of a run keep what they compile, and which of them README's command leaves to CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.emulator_suite import FOLDERS, pytest_collection_modifyitems
from tests.support.run_cache import NAME, run_cache


class Item:
    """As much of a collected test as the hook uses."""

    def __init__(self, path: Path, *marks: str) -> None:
        self.path = path
        self.marks = [*marks]

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)


def test_a_named_folder_is_the_cache_of_the_run(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, str(tmp_path / "a" / "b"))
    assert run_cache(tmp_path_factory) == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    monkeypatch.setenv(NAME, "")
    assert run_cache(tmp_path_factory).name == "fmha-cache"


def test_ci_runs_the_tests_of_emulators_that_are_not_slow() -> None:
    emulator, slow, other = (
        Item(FOLDERS[0] / "tests" / "test_it.py"),
        Item(FOLDERS[1] / "tests" / "test_it.py", "slow"),
        Item(FOLDERS[0].parent / "fmha-null" / "tests" / "test_it.py"),
    )
    assert all(folder.is_dir() for folder in FOLDERS)
    pytest_collection_modifyitems([emulator, slow, other])  # type: ignore[list-item]
    assert (emulator.marks, slow.marks, other.marks) == (["slow", "ci"], ["slow"], [])
