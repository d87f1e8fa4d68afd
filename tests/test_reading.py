"""What a run need not read: files in which its mark selects nothing, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.emulator_suite import FOLDERS
from tests.support.paths import ROOT
from tests.support.reading import leave_out

NONE: frozenset[str] = frozenset()
PLAIN = "def test_it(): ...\n"
SLOW = "pytestmark = [pytest.mark.slow, pytest.mark.timeout(9)]\n" + PLAIN
QUOTED = f'TEXT = """\n{SLOW}"""\n' + PLAIN
ONE_SLOW = "@pytest.mark.slow\n" + PLAIN
CI = "@pytest.mark.slow\n@pytest.mark.ci\n" + PLAIN
SAMPLED = '@pytest.mark.sampled(2, ci="all")\n' + PLAIN
DAILY = "@pytest.mark.sampled(2)\n" + PLAIN
BY_IMPORT = "from tests.support.generators.cpu.cases import for_archs\n" + PLAIN
"""A module whose cases bring the mark along."""


@pytest.mark.parametrize(
    ("text", "daily", "ci"),
    [
        (PLAIN, True, False),
        (SLOW, False, False),
        (QUOTED, True, False),
        (ONE_SLOW, True, False),
        (CI, True, True),
        (SAMPLED, True, True),
        (DAILY, True, False),
        (BY_IMPORT, True, True),
    ],
    ids=["plain", "all slow", "all slow in a text", "one slow", "ci", "sampled for ci", "sampled", "ci by import"],
)
def test_a_file_is_read_if_a_run_may_select_a_test(text: str, daily: bool, ci: bool, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text, "utf-8")
    assert [not leave_out(file, marks, NONE, tmp_path) for marks in ("not slow", "ci", "", "slow", "slow or ci")] == [
        daily,
        ci,
        True,
        True,
        True,
    ]


def test_the_files_of_an_emulator_are_for_ci() -> None:
    for folder in FOLDERS:
        file = next(folder.rglob("test_*.py"))
        assert (leave_out(file, "not slow", NONE), leave_out(file, "ci", NONE)) == (True, False)


def test_what_a_report_names_is_read_again() -> None:
    own = ROOT / "tests" / "domain" / "test_mask.py"
    assert leave_out(own, "ci", NONE)
    assert leave_out(own, "ci", frozenset({"tests.domain.test_masks::test_it", "tests.domain.test_problem::test_mask"}))
    for name in (
        "tests.domain.test_mask::test_it[x]",
        "tests.domain.test_mask",
        "tests.domain.test_mask.TestIt::test_it",
    ):
        assert not leave_out(own, "ci", frozenset({name})), name


def test_folders_and_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SLOW, "utf-8")
    assert not leave_out(tmp_path, "not slow", NONE)
    assert not leave_out(tmp_path / "conftest.py", "not slow", NONE)
