"""What ``benchmarks/emulator_speed.py`` makes of its samples."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import emulator_speed
import pytest
from emulator_speed import HIP_HOST, POINTS, Point, compare, extract_emulators, misses, summary_of


def turn(*cpu_s: float) -> dict[str, Any]:
    return {"cpu_s": list(cpu_s), "load_s": 0.5, "peak_mib": 90.0, "equivalents": 2_000_000}


ROW = {
    "title": "sm_80 x",
    "goal": 4.0,
    "old": [turn(0.8, 0.9, 8.0), turn(0.8, 0.8, 0.8)],
    "new": [turn(0.2, 0.2, 9.0), turn(0.16, 0.16, 0.2)],
}


def test_a_ratio_is_of_medians_with_those_of_neighbouring_turns() -> None:
    assert summary_of(ROW) == {
        "ms": [850.0, 180.0],
        "ratio": [4.72, 4.5, 5.0],
        "million_per_s": 11.1,
        "load_ms": [500, 500],
        "peak_mib": [90, 90],
    }
    alone = {name: value for name, value in ROW.items() if name != "old"}
    assert summary_of(alone)["ms"] == [180.0]
    assert "ratio" not in summary_of(alone)


@pytest.mark.parametrize(
    ("goal", "summary", "words"),
    [
        (4.0, {"ratio": [4.0, 3.0, 5.0]}, ""),
        (4.0, {"ratio": [3.99, 3.0, 5.0]}, "x: 3.99 times as fast, not 4"),
        (0.0, {"ratio": [0.5, 0.4, 0.6]}, ""),
        (4.0, {}, ""),
    ],
)
def test_a_missed_goal_is_named_and_no_other(goal: float, summary: dict[str, Any], words: str) -> None:
    assert misses({"title": "x", "goal": goal, "summary": summary}) == words


def test_a_point_that_cannot_run_says_so() -> None:
    row = compare(Point("sm_80", "x", "", needs="a_package_that_is_nowhere"), None, 1, 1)
    assert row["why"] == "a_package_that_is_nowhere is not installed"
    assert misses(row) == ""


def test_titles_are_unique() -> None:
    assert len({point.title for point in POINTS}) == len(POINTS)


def test_an_emulator_from_before_the_host_was_its_own_gets_the_host_of_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, folder = tmp_path / "repository", tmp_path / "old"
    amd, nvidia = (f"plugins/fmha-{name}-emu/src/fmha_{name}_emu" for name in ("amdgpu", "nvptx"))
    before = "from fmha_cli.plugin import Units, hip_host_files, units_of\nFILES = {**hip_host_files(), **own}\n"
    texts = {
        f"{amd}/units.py": before,
        f"{amd}/core/lds.cpp": "1",
        f"{nvidia}/units.py": "2",
        f"{HIP_HOST}/hip_host.cpp": "3",
    }
    for name, text in texts.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "old")):
        subprocess.run(("git", *words), cwd=repository, check=True)
    folder.mkdir()
    monkeypatch.setattr(emulator_speed, "ROOT", repository)
    extract_emulators("HEAD", folder)
    assert sorted(path.name for path in (folder / amd / "core").iterdir()) == ["hip_host.cpp", "lds.cpp"]
    assert (folder / amd / "units.py").read_text() == before.replace("hip_host_files, ", "").replace(
        "**hip_host_files(), ", ""
    )
