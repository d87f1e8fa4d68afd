"""Shared code names no backend and no project whose kernels a backend provides."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

BACKENDS = Path(__file__).resolve().parents[3] / "fmha_cli" / "backends"
SHARED = ("gpu", "cuda", "hip")
OWN = sorted({p.name for p in BACKENDS.iterdir() if (p / "__init__.py").is_file()} - {*SHARED, "host"})
UPSTREAMS = (
    "ck",
    "composable",
    "cutlass",
    "fa2",
    "fa3",
    "flash-attn",
    "flash_attn",
    "flashattention",
    "flashattn",
    "flashinfer",
    "xformers",
)
GUIDE = BACKENDS / "cuda" / "__init__.py"
"""Nothing but a docstring: the guide to a further backend names those to copy from."""
FILES = sorted(
    p
    for room in SHARED
    for p in (BACKENDS / room).rglob("*")
    if p.suffix in (".py", ".cpp", ".hpp", ".h") and p != GUIDE
)


def names_in(text: str) -> set[str]:
    """The names of backends and of their projects in a text, as whole words and inside identifiers."""
    words = "|".join(sorted({*OWN, *UPSTREAMS}, key=len, reverse=True))
    found = re.findall(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])", text.lower())
    camel = re.findall(r"(?<![A-Za-z])(?:Ck|Fa[23]?)(?=[A-Z])", text)
    return {*found, *camel}


def test_the_backends_are_found() -> None:
    assert {"cpu", "ck_tile", "flash_attn"} <= set(OWN)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(BACKENDS)))
def test_a_shared_file_names_no_backend(path: Path) -> None:
    assert names_in(path.read_text("utf-8")) == set()


def test_the_guide_is_nothing_but_a_docstring() -> None:
    (only,) = ast.parse(GUIDE.read_text("utf-8")).body
    assert isinstance(only, ast.Expr)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from fmha_cli.backends.ck_tile import x", {"ck_tile"}),
        ("FlashAttention's kernels", {"flashattention"}),
        ("class FaSession:", {"Fa"}),
        ("CkLibrary", {"Ck"}),
        ('"flash-attn"', {"flash-attn"}),
        ("the cpu backend", {"cpu"}),
        ("check_layout, back, block, CkeX, a fact, Factory, cpus", set()),
    ],
)
def test_the_search_sees_names_and_nothing_else(text: str, found: set[str]) -> None:
    assert names_in(text) == found
