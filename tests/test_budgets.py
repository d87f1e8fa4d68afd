"""Pages stay short: each kind of page has a number of words that it may have, and so have all together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.reference import words

ROOT = Path(__file__).resolve().parents[1]


def test_every_page_and_all_together_are_within_their_budget() -> None:
    assert words.beyond(ROOT) == []


def test_words_are_counted_outside_code_and_of_results_outside_tables_too() -> None:
    text = "# Two words\n\nthree more words\n\n```bash\nnot these\n```\n\n| a | b |\n| - | - |\n"
    assert words.count(text) == 6 + 10
    assert words.count(text, tables=False) == 6


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("README.md", "word " * 501, ["README.md: 501 words, at most 500"]),
        ("docs/tutorial.md", "word " * 1201, ["docs/tutorial.md: 1201 words, at most 1200"]),
        ("docs/how-to/tune.md", "word " * 501, ["docs/how-to/tune.md: 501 words, at most 500"]),
        ("results/cpu.md", "word " * 1001, ["results/cpu.md: 1001 words, at most 1000"]),
        ("results/cpu.md", "| word |\n" * 1001, []),
        ("docs/explanation/numerics.md", "word " * 25_001, ["README and docs: 25001 words, at most 25000"]),
        ("docs/reference/rules.md", "word " * 25_001, []),
        ("CHANGELOG.md", "line\n" * 61, ["CHANGELOG.md: 61 lines, at most 60"]),
    ],
)
def test_what_is_too_long_is_named(name: str, text: str, told: list[str], tmp_path: Path) -> None:
    for path in (tmp_path / "README.md", tmp_path / "CHANGELOG.md", tmp_path / name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / name).write_text(text, "utf-8")
    assert words.beyond(tmp_path) == told
