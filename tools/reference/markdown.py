"""Markdown from Python values: what every page is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

REGENERATE = "<!-- Generated: `python tools/generate.py write` makes this page anew. -->"


def page(title: str, about: str, *parts: str) -> str:
    """A page: how to make it again, the title, what it is for, and its parts."""
    return "\n\n".join([REGENERATE, f"# {title}", about, *(part for part in parts if part)]) + "\n"


def section(title: str, *parts: str, level: int = 2) -> str:
    """A heading and what stands under it."""
    return "\n\n".join(["#" * level + f" {title}", *(part for part in parts if part)])


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty if it has no rows. A column that is empty in every row is left out."""
    lines = [tuple(row) for row in rows]
    used = [i for i, _ in enumerate(columns) if any(line[i] for line in lines)]
    if not lines:
        return ""
    shown = [[columns[i] for i in used], ["---"] * len(used), *([_cell(line[i]) for i in used] for line in lines)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)


def code(text: object) -> str:
    """A text in the type of code, as a cell of a table can hold it."""
    return f"`{text}`" if str(text) else ""


def plain(text: str) -> str:
    """A sentence of the program as Markdown: what Markdown would read as a sign is escaped, and code keeps its marks."""
    parts = re.split(r"(`+[^`]+`+)", re.sub(r" \(contract, section [^)]*\)", "", " ".join(text.split())))
    return "".join(_single(part) if i % 2 else _escaped(part) for i, part in enumerate(parts))


def listed(texts: Iterable[str]) -> str:
    """A list of lines."""
    return "\n".join(f"- {text}" for text in texts)


def anchor(heading: str) -> str:
    """The anchor that GitHub and mkdocs give a heading: small letters, no punctuation, hyphens for spaces."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())


def first_paragraph(docstring: str | None) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((docstring or "").strip().partition("\n\n")[0].split())


def _single(part: str) -> str:
    """Code with single marks: docstrings have double ones."""
    return f"`{part.strip('`')}`"


def _escaped(text: str) -> str:
    text = re.sub(r"(?<!\w)_|_(?!\w)|[*\\]", lambda found: f"\\{found[0]}", text)
    return text.replace("<", "&lt;").replace("](", "]&#40;")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def title_of(text: str) -> str:
    """The title of a page."""
    return next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def index(pages: Mapping[str, str]) -> str:
    """The page that names the others."""
    about = "What there is, page by page. Every page is made from the code and the facts, and a test compares them."
    return page("Reference", about, listed(f"[{title_of(text)}]({name})" for name, text in pages.items()))
