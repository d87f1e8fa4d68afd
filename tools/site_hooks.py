"""The hook of ``mkdocs.yml``: pages outside ``docs/`` join the site, and links between files of the repository lead to its pages.

Pages link as on a code host, by the path from file to file. README is the start page, ``results/README.md`` the first of the results.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

_OUTSIDE = ("README.md", "CHANGELOG.md", "results/*.md")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
_FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
_HIDDEN = {"index.md": ["navigation"], "reference/backends.md": ["toc"]}
"""What would otherwise be next to a page: the start page has no neighbours, and the tables of backends are wide."""

_SCHEME = re.compile(r"[a-z]+:")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside the folder, and list the results in the navigation."""
    root = Path(config.config_file_path).parent
    for path in sorted(path for pattern in _OUTSIDE for path in root.glob(pattern)):
        name = path.relative_to(root).as_posix()
        files.append(File.generated(config, page_of(name), abs_src_path=str(path)))
    results = next(part["Results"] for part in config.nav or [] if "Results" in part)
    results += sorted(f.src_uri for f in files if f.src_uri.startswith("results/") and f.src_uri not in results)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make each link to a file of the repository one to its page; a file that has no page keeps its name alone."""
    root = Path(config.config_file_path).parent
    here = PurePosixPath(file_of(page.file.src_uri))
    page.meta["hide"] = _HIDDEN.get(page.file.src_uri, [])

    def linked(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if _SCHEME.match(target):
            return found[0]
        name = os.path.normpath(here.parent / target)
        if files.get_file_from_path(page_of(name)) is not None:
            start = os.path.dirname(page.file.src_uri) or "."
            return f"[{text}]({os.path.relpath(page_of(name), start)}{anchor})"
        return text if (root / name).exists() else found[0]

    return "".join(part if is_code else _bars(_LINK.sub(linked, part)) for part, is_code in _parts(markdown))


def _bars(text: str) -> str:
    """Bars in code in cells of tables: a code host needs them escaped, and Python-Markdown would show the sign in front."""
    code = re.compile(r"`[^`\n]*`")
    lines = (code.sub(lambda one: one[0].replace("\\|", "|"), x) if x.startswith("|") else x for x in text.split("\n"))
    return "\n".join(lines)


def page_of(name: str) -> str:
    """The page that a file of the repository becomes, by its path from the root."""
    path = PurePosixPath(name)
    if path.name == "README.md":
        return str(path.with_name("index.md"))
    return name.removeprefix("docs/")


def file_of(page: str) -> str:
    """The file from which a page comes; the inverse of :func:`page_of`."""
    if page in ("index.md", "results/index.md"):
        return str(PurePosixPath(page).with_name("README.md"))
    return page if page == "CHANGELOG.md" or page.startswith("results/") else f"docs/{page}"


def _parts(markdown: str) -> list[tuple[str, bool]]:
    """A page cut at its fenced code: each part, and whether it is code."""
    found, end = [], 0
    for fence in _FENCE.finditer(markdown):
        found += [(markdown[end : fence.start()], False), (fence[0], True)]
        end = fence.end()
    return [*found, (markdown[end:], False)]
