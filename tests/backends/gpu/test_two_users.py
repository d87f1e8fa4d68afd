"""Every public name of ``backends/gpu`` is used for both vendors, by their backends, their emulators or one plugin."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

BACKENDS = Path(__file__).resolve().parents[3] / "fmha_cli" / "backends"
BOTH = BACKENDS.parents[1] / "plugins" / "fmha-triton"
"""A plugin whose kernels run on devices of both vendors."""
PLUGINS = [BACKENDS.parents[1] / "plugins" / f"fmha-{name}-emu" for name in ("amdgpu", "nvptx")]
SIDES = {"amd": "hip", "nvidia": "cuda"}
"""Each vendor's shared folder. Backends that import it are on that vendor's side."""
MODULES = sorted(p for p in (BACKENDS / "gpu").glob("*.py") if p.stem != "__init__")


@cache
def imported(folder: Path, shared: str = "gpu") -> set[tuple[str, str]]:
    """The (module, name) pairs that a folder imports from a shared one."""
    nodes = (node for file in folder.rglob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    found = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module)
    prefix = f"fmha_cli.backends.{shared}."
    return {
        (node.module.removeprefix(prefix), alias.name)
        for node in found
        if node.module is not None and node.module.startswith(prefix)
        for alias in node.names
    }


@cache
def side(shared: str) -> set[tuple[str, str]]:
    """The names that a vendor's shared folder and its backends import from ``backends/gpu``."""
    folders = [
        p.parent for p in BACKENDS.glob("*/__init__.py") if p.parent.name == shared or imported(p.parent, shared)
    ]
    return set().union(*(imported(folder) for folder in folders if folder.name != "gpu"))


def public(module: Path) -> Iterator[str]:
    """The functions and classes of a module."""
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


@cache
def emulators() -> set[str]:
    """The names of ``fmha_cli.plugin`` that the emulators of both vendors use, or a plugin for both vendors."""
    return set.intersection(*(set(_names(folder)) for folder in PLUGINS)) | set(_names(BOTH))


def _names(folder: Path) -> Iterator[str]:
    for file in (folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "plugin":
                yield node.attr
            elif isinstance(node, ast.ImportFrom) and node.module == "fmha_cli.plugin":
                yield from (alias.name for alias in node.names)


def lonely(module: Path) -> list[str]:
    """Public names that only one vendor uses; a name that another shared module uses counts as used by both."""
    inside = imported(BACKENDS / "gpu")
    used = inside | set.intersection(*map(side, SIDES.values())) | {(module.stem, name) for name in emulators()}
    own = ast.parse(module.read_text("utf-8"))
    read = {node.id for node in ast.walk(own) if isinstance(node, ast.Name)}
    return [name for name in public(module) if (module.stem, name) not in used and name not in read]


@pytest.mark.parametrize("module", MODULES, ids=lambda p: p.stem)
def test_both_vendors_use_it(module: Path) -> None:
    assert lonely(module) == []


def test_the_search_sees_a_name_that_one_side_uses(tmp_path: Path) -> None:
    module = tmp_path / "call.py"
    module.write_text("def nobody() -> None: ...\nclass Call: ...\n", "utf-8")
    assert lonely(module) == ["nobody"]
