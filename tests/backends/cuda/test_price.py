"""What a backend costs its author: the concepts of the shared layer that the guide counts, and the names that a backend imports of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fmha_cli.backends import cuda

PACKAGE = Path(__file__).resolve().parents[3] / "fmha_cli"
GUIDE = cuda.__doc__ or ""
ROWS = re.findall(
    r"^\| (\*?)(\w+)\*? \| .* \| ((?:`(?:cuda|gpu|codegen|domain)/\w+` ?)+|`codegen/\w+` `cuda/\w+`) \|$", GUIDE, re.M
)
LISTED = {module for _, _, modules in ROWS for module in re.findall(r"`([\w/]+)`", modules)}
COUNTED = {name: int(count) for name, count in re.findall(r"`(\w+)` (?:imports )?(\d+)(?: names|,| \()", GUIDE)}
SHARED = (
    "fmha_cli.backends.gpu.",
    "fmha_cli.backends.cuda.",
    "fmha_cli.codegen.struct",
    "fmha_cli.codegen.cuda",
    "fmha_cli.domain.own",
)


def imported(backend: str, package: Path = PACKAGE) -> set[tuple[str, str]]:
    """The (module, name) pairs that a backend imports of the shared layer; a module is ``gpu/call``."""
    files = [file for part in ("backends", "codegen") for file in (package / part / backend).rglob("*.py")]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    return {
        ("/".join(node.module.split(".")[-2:]), alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(SHARED)
        for alias in node.names
    }


def test_the_guide_counts_its_concepts() -> None:
    (stated,) = re.findall(r"these (\d+) concepts", GUIDE)
    (italic,) = re.findall(r"answer for the (\d+) in italics", GUIDE)
    assert (len(ROWS), sum(bool(mark) for mark, _, _ in ROWS)) == (int(stated), int(italic))
    assert len({concept for _, concept, _ in ROWS}) == len(ROWS)
    assert all((PACKAGE / "backends" / f"{m}.py").exists() or m.startswith(("codegen/", "domain/")) for m in LISTED)


@pytest.mark.parametrize("backend", ["cudnn_oss", "mem_efficient", "flash_attn", "flash_attn_3"])
def test_a_backend_uses_the_concepts_of_the_guide_alone(backend: str) -> None:
    found = imported(backend)
    assert {module for module, _ in found} <= LISTED
    assert len(found) == COUNTED[backend]


def test_imports_of_both_packages_are_found(tmp_path: Path) -> None:
    for name, text in {
        "backends/one/a.py": "def f():\n    from fmha_cli.backends.gpu.call import Call, Strides\n",
        "codegen/one/deep/b.py": "from fmha_cli.codegen.struct import pack\nfrom fmha_cli.domain.kernel import Family\n",
        "backends/two/a.py": "from fmha_cli.backends.cuda.launch import Launch\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert imported("one", tmp_path) == {("gpu/call", "Call"), ("gpu/call", "Strides"), ("codegen/struct", "pack")}
