"""Make the pages of ``docs/reference``, or check that they are what the code and the facts say.

    python tools/generate.py write      make every page anew
    python tools/generate.py check      say which pages are out of date, and exit with 1
    python tools/generate.py words      count the words that people wrote, by folder

The pages are the same on every machine: they are made from this checkout and its plugins, and no device is asked.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
MODULES = (
    *("commands", "problem", "rules", "verdicts", "schemas"),
    *("backends", "architectures", "models", "sources", "instructions", "plugin_api", "promises"),
)
"""In the order of the index."""


def pages() -> dict[str, str]:
    """Every page by its file name."""
    made: dict[str, str] = {}
    for name in MODULES:
        made.update(pages_of(name))
    return {"index.md": _module("markdown").index(made), **made}


def pages_of(module: str) -> dict[str, str]:
    """The pages of one module."""
    return dict(_module(module).pages())


def _module(name: str) -> Any:
    """A module of the package next to this file, which is run as a script or imported as ``tools.generate``."""
    return import_module(f"{__package__}.reference.{name}" if __package__ else f"reference.{name}")


def differences(made: Mapping[str, str], folder: Path) -> Iterator[str]:
    """How the files of a folder differ from the pages, a few lines for each."""
    there = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))}
    for name in sorted({*made, *there}):
        before, after = there.get(name), made.get(name)
        if before is None or after is None:
            yield f"{name}: {'is missing' if before is None else 'nothing makes it'}"
        elif before != after:
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "file", "made", lineterm="", n=0)
            yield "\n".join([f"{name}: out of date", *list(lines)[2:12]])


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("write", "check", "words"))
    mode = parser.parse_args().mode
    if mode == "words":
        print(_module("words").report(ROOT))
        return 0
    made = pages()
    if mode == "write":
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in set(FOLDER.glob("*.md")) - {FOLDER / name for name in made}:
            path.unlink()
        for name, text in made.items():
            (FOLDER / name).write_text(text, "utf-8")
    found = list(differences(made, FOLDER))
    for text in found:
        print(text, file=sys.stderr)
    if found:
        print("`python tools/generate.py write` brings them up to date", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
