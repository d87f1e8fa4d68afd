"""The size of the house: what a reader of ``fmha_cli`` has to hold in mind, as figures.

    python -m tools.house                         # of this checkout
    python -m tools.house --root OTHER            # of another one
    python -m tools.house --trace run -s 64 -d 8  # what one command passes through, in its own process

A module is single if one other module imports it, apart from packages' ``__init__`` and tests. A trace counts the modules and functions of
``fmha_cli`` that the parent process of a command calls; bodies of modules and classes, lambdas and comprehensions do not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "fmha_cli"
ROOT = Path(__file__).resolve().parent.parent
APART = ("backends", "codegen", "toolchain")
"""Rooms that do not belong to the core."""


@dataclass(frozen=True)
class Module:
    """One module: ``run.worker``, its room, and what it holds."""

    name: str
    tree: ast.Module
    lines: int
    blank: int
    doc: int

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]

    @property
    def classes(self) -> list[str]:
        return [node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    @property
    def late_imports(self) -> int:
        """Imports of ``fmha_cli`` inside of functions."""
        functions = (n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        found = {id(node): node for function in functions for node in ast.walk(function) if _imports(node)}
        return len(found)

    def imported(self, known: set[str]) -> set[str]:
        """The modules of the package that it imports anywhere."""
        out: set[str] = set()
        for node in ast.walk(self.tree):
            for name in _imports(node):
                short = name.removeprefix(f"{PACKAGE}.")
                whole = [short, *(f"{short}.{alias.name}" for alias in getattr(node, "names", ()))]
                out |= {one for one in whole if one in known}
        return out - {self.name}


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
        return [node.module or ""]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.partition(".")[0] == PACKAGE]
    return []


def read_modules(root: Path) -> list[Module]:
    """Every module of the package below a checkout."""
    return [_module(path, root / PACKAGE) for path in sorted((root / PACKAGE).rglob("*.py"))]


def _module(path: Path, package: Path) -> Module:
    text = path.read_text("utf-8")
    lines, tree = text.splitlines(), ast.parse(text)
    doc: set[int] = set()
    for node in ast.walk(tree):
        for child in getattr(node, "body", ()) if isinstance(getattr(node, "body", None), list) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                doc |= set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    name = ".".join(path.relative_to(package).with_suffix("").parts)
    blank = sum(not line.strip() for at, line in enumerate(lines, 1) if at not in doc)
    return Module(name.removesuffix(".__init__"), tree, len(lines), blank, len(doc))


def measure_house(root: Path) -> dict[str, Any]:
    """The figures of a checkout."""
    modules = read_modules(root)
    known = {module.name for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imported(known):
            importers[name].add(module.name)
    packages = {module.name for module in modules if any(other.startswith(f"{module.name}.") for other in known)}
    classes = Counter(name for module in modules for name in module.classes)
    rooms: defaultdict[str, dict[str, int]] = defaultdict(
        lambda: dict.fromkeys(("modules", "lines", "code", "docstrings", "blank"), 0)
    )
    for module in modules:
        room = rooms[module.room]
        code = module.lines - module.doc - module.blank
        for key, value in zip(room, (1, module.lines, code, module.doc, module.blank), strict=True):
            room[key] += value
    return {
        "modules": len(modules),
        "lines": sum(module.lines for module in modules),
        "core lines": sum(module.lines for module in modules if module.room not in APART),
        "docstring share": round(sum(m.doc for m in modules) / sum(m.lines for m in modules), 3),
        "longest module": max(module.lines for module in modules),
        "class names twice": sorted(name for name, count in classes.items() if count > 1),
        "imports in functions": sum(module.late_imports for module in modules),
        "single modules": sorted(n for n in known - packages if len(importers[n]) == 1),
        "rooms": dict(sorted(rooms.items())),
    }


_TRACED = """
import json, sys
seen, root = {}, sys.argv[1]
def look(frame, event, _):
    if event == "call":
        code = frame.f_code
        if code.co_flags & 1 and code.co_filename.startswith(root) and not code.co_name.startswith("<"):
            seen[code.co_filename[len(root) + 1:], code.co_qualname] = True
from fmha_cli.cli.app import run
sys.setprofile(look)
code = run(sys.argv[2:], dict(__import__("os").environ))
sys.setprofile(None)
json.dump({"code": code, "seen": list(seen)}, sys.stderr)
"""


def trace(root: Path, words: Sequence[str]) -> list[tuple[str, str]]:
    """Every function of the package that a command calls in its parent process, as (file, qualified name), by their first calls.

    Raises:
        RuntimeError: the command fails.
    """
    command = [sys.executable, "-c", _TRACED, str(root / PACKAGE), *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    last = done.stderr.rpartition('{"code"')
    found: dict[str, Any] = json.loads(last[1] + last[2]) if last[1] else {"code": done.returncode}
    if found["code"]:
        raise RuntimeError(f"{' '.join(words)}: exit code {found['code']}\n{done.stdout}{done.stderr}")
    return [(file, name) for file, name in found["seen"]]


def lines_of(figures: dict[str, Any]) -> Iterator[str]:
    """The figures as text; lists as their lengths."""
    for key, value in figures.items():
        if key != "rooms":
            yield f"{key:22}{len(value) if isinstance(value, list) else value}"
    for room, row in figures["rooms"].items():
        yield f"  {room:20}" + "  ".join(f"{key} {value}" for key, value in row.items())


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--json", action="store_true", help="everything, with the names")
    parser.add_argument("--trace", nargs=argparse.REMAINDER, metavar="WORD", help="a command line of fmha")
    asked = parser.parse_args(words)
    if asked.trace:
        seen = trace(asked.root.resolve(), asked.trace)
        core = [(file, name) for file, name in seen if file.partition("/")[0] not in APART]
        print(
            f"modules {len({file for file, _ in core})}, functions {len(core)} (with {', '.join(APART)}: {len({f for f, _ in seen})}, {len(seen)})"
        )
        return 0
    figures = measure_house(asked.root.resolve())
    print(json.dumps(figures, indent=1) if asked.json else "\n".join(lines_of(figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
