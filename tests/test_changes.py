"""The changelog is short, and every fragment of it has a name and a type that towncrier collects."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
TYPES = [kind["directory"] for kind in SETTINGS["type"]]
FOLDER = ROOT / SETTINGS["directory"]
LINES = 60
WORDS = 60


def faults(folder: Path) -> list[str]:
    """What is wrong with the fragments of a folder, each with its name."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        name = re.fullmatch(r"\+[a-z0-9-]+\.([a-z]+)\.md", path.name)
        words = len(path.read_text("utf-8").split())
        if name is None:
            found.append(f"{path.name}: not +TOPIC.TYPE.md")
        elif name[1] not in TYPES:
            found.append(f"{path.name}: the type is one of {', '.join(TYPES)}")
        elif not 3 <= words <= WORDS:
            found.append(f"{path.name}: {words} words")
    return found


def test_every_fragment_has_a_valid_name_and_type() -> None:
    assert faults(FOLDER) == []


def test_planted_fragments_are_noticed(tmp_path: Path) -> None:
    texts = {
        "+a.added.md": "A new flag.",
        "+b.news.md": "A new flag.",
        "c.added.md": "A new flag.",
        "+d.wrong.md": "",
        "+e.changed.md": "word " * (WORDS + 1),
        "README.md": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    assert [fault.partition(":")[0] for fault in faults(tmp_path)] == [
        "+b.news.md",
        "+d.wrong.md",
        "+e.changed.md",
        "c.added.md",
    ]


def test_the_changelog_is_short() -> None:
    text = (ROOT / SETTINGS["filename"]).read_text("utf-8")
    assert len(text.splitlines()) <= LINES
    assert SETTINGS["start_string"] in text


def test_the_readme_of_the_fragments_names_every_type() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    assert re.findall(r"^- `(\w+)`:", text, re.MULTILINE) == TYPES


@pytest.mark.skipif(find_spec("towncrier") is None, reason="towncrier is not installed (extra: dev)")
def test_towncrier_collects_them() -> None:
    words = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "## 9.9" in done.stdout
    assert all(path.read_text("utf-8").split()[0] in done.stdout for path in FOLDER.glob("+*.md"))
