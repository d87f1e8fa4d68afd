"""Every page that a text of this repository cites exists, and so does every anchor and every heading that it names.

Cited are ``docs/...`` and ``results/...`` anywhere (code, facts, messages, tests, findings, pages), links of Markdown by the path from file
to file, and ``docs/x.md, "A heading"``. An anchor counts only if GitHub and mkdocs make the same one of the heading.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

OF_OTHERS: Mapping[str, str] = {
    "docs/ContribOperators.md": "ONNX Runtime",
    "docs/Operators.md": "ONNX",
    "docs/packaging/python_packaging.md": "ROCm's TheRock",
}
"""Paths in other projects."""

MADE_UP = re.compile(r"no-such|NAME|docs/(a\.json|orphan)|data/paper\.|results/index\.md")
"""Paths that stand for others, and those of tests that look for what does not exist."""

_END = r"\.(?:md|png|json|json\.xz)(?![\w.]*\w)"
_CITED = re.compile(rf'(?<![\w./-])((?:docs|results)/[\w./-]*?{_END})(#[\w-]+)?(?:`*, \\?"([^"\\\n]+))?')
_LINK = re.compile(r"\]\(([^()\s#:]*)(#[^()\s]*)?\)")
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)


def files(root: Path) -> list[Path]:
    """The files of the repository; empty without git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False).stdout.decode()
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def faults(root: Path, paths: Iterable[Path]) -> Iterator[str]:
    """Every citation that leads nowhere, with the file that has it."""
    for path in paths:
        if path == Path(__file__).resolve():  # its citations are planted
            continue
        data = path.read_bytes()
        if b"\0" in data or not (b"docs/" in data or b"results/" in data or path.suffix == ".md"):
            continue
        text, name = data.decode("utf-8", errors="replace"), path.relative_to(root).as_posix()
        for target, anchor, heading in _CITED.findall(text):
            if target not in OF_OTHERS and not MADE_UP.search(target):
                yield from _missing(name, root / target, anchor, heading, target)
        for target, anchor in _LINK.findall(_FENCE.sub("", text)) if path.suffix == ".md" else ():
            yield from _missing(name, (path.parent / target).resolve() if target else path, anchor, "", target)


def _missing(name: str, cited: Path, anchor: str, heading: str, target: str) -> Iterator[str]:
    if not cited.exists():
        yield f"{name}: {target} does not exist"
    elif cited.suffix == ".md" and anchor and anchor[1:] not in _anchors(cited):
        yield f"{name}: {target}{anchor}: there is no such anchor"
    elif cited.suffix == ".md" and heading and heading not in _headings(cited):
        yield f'{name}: {target}: there is no heading "{heading}"'


@cache
def _headings(page: Path) -> frozenset[str]:
    text = _FENCE.sub("", page.read_text("utf-8"))
    return frozenset(line.lstrip("#").strip() for line in text.splitlines() if re.match(r"#+ ", line))


@cache
def _anchors(page: Path) -> frozenset[str]:
    """The anchors on which GitHub and mkdocs agree; of equal headings, that of the first."""
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in _headings(page))
    return frozenset(
        words.replace(" ", "-") for words in plain if re.sub(r"[-\s]+", "-", words) == words.replace(" ", "-")
    )


def test_every_cited_page_and_anchor_exists() -> None:
    found = files(ROOT)
    if not found:
        pytest.skip("this tree has no git history, so its own files are unknown")
    assert list(faults(ROOT, found)) == []


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("code.py", '"""See ``docs/gone.md``."""', "docs/gone.md does not exist"),
        ("facts.json", '{"source": "results/gone.md"}', "results/gone.md does not exist"),
        ("run.sh", "# docs/page.md#gone", "docs/page.md#gone: there is no such anchor"),
        ("code.cpp", '// docs/page.md, "Gone"', 'docs/page.md: there is no heading "Gone"'),
        ("results/page.md", "[x](../docs/gone.md)", "../docs/gone.md does not exist"),
        ("docs/other.md", "[x](page.md#gone)", "page.md#gone: there is no such anchor"),
        ("docs/other.md", "[x](#gone)", "#gone: there is no such anchor"),
        ("docs/other.md", "[x](page.md#one-two)\n[x](https://example.org/docs/gone.md)\n```\n[x](gone.md)\n```", ""),
        ("code.py", 'docs/page.md, "One two" (docs/page.md#one-two); fmha_cli/results/gone.md', ""),
    ],
)
def test_a_planted_citation_is_found(name: str, text: str, told: str, tmp_path: Path) -> None:
    page, path = tmp_path / "docs" / "page.md", tmp_path / name
    for folder in (page.parent, path.parent):
        folder.mkdir(exist_ok=True)
    page.write_text("# A page\n\n## One two\n", "utf-8")
    path.write_text(text, "utf-8")
    assert list(faults(tmp_path, [path])) == ([f"{name}: {told}"] if told else [])
