"""Every module of ``backends/cuda`` serves at least two backends, itself or through another module of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

BACKENDS = Path(__file__).resolve().parents[3] / "fmha_cli" / "backends"
SHARED = BACKENDS / "cuda"
OWN = sorted(p.parent for p in BACKENDS.glob("*/__init__.py") if p.parent.name not in ("gpu", "cuda", "hip"))
PREFIX = "fmha_cli.backends.cuda."


def imported(files: Iterable[Path]) -> set[str]:
    """The modules of ``backends/cuda`` that files import, also inside functions, or take methods from (``own``)."""
    return {name for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))) for name in _named(node)}


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PREFIX):
        yield node.module.removeprefix(PREFIX)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "own":
        module = ast.literal_eval(node.args[0]) if isinstance(node.args[0], ast.Constant) else ""
        if module.startswith(PREFIX):
            yield module.removeprefix(PREFIX)


def taken(file: Path) -> set[str]:
    """The modules beside a file from which it takes methods: ``own(".module")``."""
    nodes = (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call))
    firsts = (node.args[0] for node in nodes if ast.unparse(node.func) == "own")
    return {str(first.value)[1:] for first in firsts if isinstance(first, ast.Constant) and str(first.value)[0] == "."}


def users(shared: Path, own: Iterable[Path]) -> dict[str, set[str]]:
    """Module of a shared folder -> the backends that it serves."""
    inside = {file.stem: imported([file]) | taken(file) for file in shared.glob("*.py") if file.stem != "__init__"}
    found: dict[str, set[str]] = {name: set() for name in inside}
    for folder in own:
        waiting = imported(folder.rglob("*.py"))
        while waiting:
            name = waiting.pop()
            if folder.name not in found[name]:
                found[name].add(folder.name)
                waiting |= inside[name]
    return found


FOUND = users(SHARED, OWN)


@pytest.mark.parametrize("module", FOUND)
def test_two_backends_use_it(module: str) -> None:
    assert len(FOUND[module]) >= 2, f"it belongs to {FOUND[module]}"


def test_a_module_of_one_backend_is_noticed(tmp_path: Path) -> None:
    files = {
        "shared/core.py": f"def run():\n    from {PREFIX}part import x\nclass A:\n    b = own('.late', 'b')",
        "shared/late.py": "",
        "shared/part.py": "",
        "shared/lonely.py": f"from {PREFIX}core import run",
        "one/a.py": f"from {PREFIX}lonely import y",
        "two/a.py": f"from {PREFIX}core import run",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    found = users(tmp_path / "shared", [tmp_path / "one", tmp_path / "two"])
    assert found == {name: {"one", "two"} for name in ("core", "part", "late")} | {"lonely": {"one"}}
