"""Counting the words that people wrote.

The rule: a word is what stands between blanks. Fenced code does not count. In pages of results the cells of tables do not count either.
Generated pages do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

BUDGETS: Mapping[str, int] = {"README.md": 500, "docs/tutorial.md": 1200, "docs/how-to": 500, "results": 1000}
"""The most words of one page: of a file, or of each page in a folder."""

ALL = 25_000
"""The most words of README and the pages below docs, without the generated ones."""

CHANGELOG_LINES = 60

_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^ *\|.*$", re.MULTILINE)


def count(text: str, *, tables: bool = True) -> int:
    """The words outside fenced code.

    Args:
        tables: whether lines of tables count.
    """
    text = _FENCE.sub("", text)
    return len((text if tables else _TABLE.sub("", text)).split())


def pages(root: Path) -> Iterator[tuple[str, int]]:
    """Each page that people wrote, by its path, and its words."""
    for path in (root / "README.md", *sorted(root.glob("docs/**/*.md")), *sorted(root.glob("results/**/*.md"))):
        name = path.relative_to(root).as_posix()
        if not name.startswith("docs/reference/"):
            yield name, count(path.read_text("utf-8"), tables=not name.startswith("results/"))


def beyond(root: Path) -> list[str]:
    """What is longer than it may be."""
    found = list(pages(root))
    texts = [
        f"{name}: {words} words, at most {most}"
        for name, words in found
        for of, most in BUDGETS.items()
        if (name == of or name.startswith(f"{of}/")) and words > most
    ]
    whole = sum(words for name, words in found if not name.startswith("results/"))
    texts += [f"README and docs: {whole} words, at most {ALL}"] if whole > ALL else []
    lines = len((root / "CHANGELOG.md").read_text("utf-8").splitlines())
    return texts + ([f"CHANGELOG.md: {lines} lines, at most {CHANGELOG_LINES}"] if lines > CHANGELOG_LINES else [])


def report(root: Path) -> str:
    """The words of each page and folder, then what is too long."""
    folders: dict[str, int] = {}
    lines = []
    for name, words in pages(root):
        lines.append(f"{words:7,} {name}")
        folder = name.rpartition("/")[0] or "."
        folders[folder] = folders.get(folder, 0) + words
    lines += ["", *(f"{words:7,} {folder}/" for folder, words in sorted(folders.items()))]
    hand = sum(words for folder, words in folders.items() if not folder.startswith("results"))
    return "\n".join([*lines, "", f"{hand:7,} by hand, without results; at most {ALL:,}", *beyond(root)])
