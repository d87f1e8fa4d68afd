"""Phrases that read as translated stay out of the package, its plugins, its pages and its tests.

The list has only phrases that outside readers stumbled over, each with the words to use in its place.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTEAD = {
    "is not to be had": "is not available",
    "are no matter": "do not matter",
    "belongs into": "belongs in",
    "what takes part": "the participants",
    "who comes in": "the parties",
    "is to be had": "is available",
    "in vain": "for nothing, needlessly",
    "what exists at all": "which exist",
    "beside timed": "around timed",
    "surely no wish": "probably unintended",
    "is no step": "is not a shift",
    "however far it came": "possibly partial",
    "is told once": "is printed once",
    "what it is told": "its input",
    "and hears of it": "hooks",
    "is no ceiling": "is not a ceiling",
    "with which nothing is wrong": "sound, healthy",
    "is no reason against": "does not rule out",
    "stays beside": "stays around during",
}
TEXTS = (".py", ".md", ".toml", ".json", ".cpp", ".hpp", ".txt")


def stumbles(text: str) -> list[str]:
    """The phrases of ``INSTEAD`` in ``text``, also where a line ends within one, each with the words to use."""
    plain = " ".join(text.lower().split())
    return [f"{phrase!r}: {words}" for phrase, words in INSTEAD.items() if phrase in plain]


def texts() -> list[Path]:
    names = (
        subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
        .stdout.decode()
        .split("\0")
    )
    paths = [ROOT / n for n in names if n.endswith(TEXTS)]
    return [p for p in paths if p.is_file() and p != Path(__file__).resolve()]


def test_no_phrase_reads_as_translated() -> None:
    found = texts()
    if not found:
        pytest.skip("this tree has no git history, so its own files are unknown")
    assert {
        str(p.relative_to(ROOT)): s for p in found if (s := stumbles(p.read_text(encoding="utf-8", errors="replace")))
    } == {}


@pytest.mark.parametrize("phrase", INSTEAD)
def test_a_planted_phrase_is_found_across_lines(phrase: str) -> None:
    assert stumbles("Before. " + phrase.replace(" ", "\n    ").capitalize() + " after.")
