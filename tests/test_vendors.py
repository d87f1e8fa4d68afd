"""Vendor knowledge stays in ``backends/``: no other room names a vendor, its tools, its devices or a backend of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fmha_cli.discovery.builtins import BUILTINS
from tests.test_architecture import PACKAGE, modules

ROOMS = (
    *("api", "bench", "cli", "conformance", "discovery", "domain", "parity", "plugin"),
    *("report", "results", "run", "sources", "tune"),
)

NEUTRAL = frozenset({"cpu"})
"""Built-in backends with vendor-neutral names: the host's processor, which every walk may fall back to."""

VENDORS = (
    r"amd(?:gpu)?|ck|cutlass|cubin|cuda[a-z]*|flash|gfx[0-9a-z]*|hip[a-z]*|nvcc|nvidia|nvrtc|ptx[a-z]*|rocm[a-z]*|sm(?=_[0-9])"
    r"|triton"
)
PATTERN = re.compile(rf"(?:^|_)({'|'.join(sorted(BUILTINS.keys() - NEUTRAL))}|{VENDORS})(?![a-z0-9])")

ALLOWED: Mapping[str, tuple[frozenset[str], str]] = {
    "plugin.py": (
        frozenset({"cubin", "cuda", "hip", "rocm"}),
        "the stable names by which a plugin reaches a vendor's runtime and tools",
    ),
    "discovery/emulated_devices.py": (
        frozenset({"amdgpu", "gfx"}),
        "the packages that a user installs to get emulated devices",
    ),
    "domain/features.py": (frozenset({"ck"}), "the name of a dropout stream, as backends declare it"),
    "domain/fields.py": (frozenset({"ck"}), "the contract lets --mask take CK's spellings, and its help says so"),
    "domain/mask.py": (frozenset({"ck"}), "the contract lets --mask take CK's spellings, and an error names them"),
    "domain/rules.py": (frozenset({"flash", "flash_attn"}), "the source of a fact: a file of a project"),
    "report/documents/inspections.py": (frozenset({"nvidia"}), "the published description of a figure"),
    "report/documents/installation.py": (
        frozenset({"amd", "nvidia"}),
        "values of the published document fmha.archs/1",
    ),
    "sources/store.py": (frozenset({"cuda", "rocm"}), "the extras that a user installs to fetch sources"),
}
"""Module -> the vendor words that it may use, and the reason."""


def spoken(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The identifiers and text literals of a module, without docstrings, which are prose."""
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value, line
        for name in ("id", "attr", "name", "arg", "asname", "module"):
            text = getattr(node, name, None)
            if isinstance(text, str):
                yield text, line


def vendor_words(text: str) -> set[str]:
    """The vendor words in an identifier (``CkRow``, ``hip_host_files``) or in a text (``--device cuda:0``)."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", text).lower()
    return set(PATTERN.findall(parts))


def found_in(source: str, allowed: frozenset[str] = frozenset()) -> list[str]:
    return [
        f"line {line}: {word}"
        for text, line in spoken(ast.parse(source))
        for word in sorted(vendor_words(text) - allowed)
    ]


def above_the_backends() -> list[Path]:
    return [p for p in modules() if p.relative_to(PACKAGE).parts[0].removesuffix(".py") in ROOMS]


def vendors_named(name: str) -> list[str]:
    """What a module says of vendors and may not."""
    allowed, _ = ALLOWED.get(name, (frozenset(), ""))
    return found_in((PACKAGE / name).read_text("utf-8"), allowed)


@pytest.mark.slow
@pytest.mark.ci
def test_no_module_above_the_backends_names_a_vendor() -> None:
    names = [str(path.relative_to(PACKAGE)) for path in above_the_backends()]
    assert len(names) > 250
    assert {name: found for name in names if (found := vendors_named(name))} == {}


def test_every_permission_is_used() -> None:
    for name, (words, _) in ALLOWED.items():
        said = {
            word for text, _ in spoken(ast.parse((PACKAGE / name).read_text("utf-8"))) for word in vendor_words(text)
        }
        assert words <= said, name


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('BACKEND = "ck_tile"', ["line 1: ck_tile"]),
        ("class CkRow: ...", ["line 1: ck"]),
        ("from fmha_cli.toolchain.rocm.toolchain import survey_rocm", ["line 1: rocm"] * 2),
        ('x = d.id in ("cuda", "hip")', ["line 1: cuda", "line 1: hip"]),
        ('help = f"try {name} on hip:0, sm_90 or gfx942"', ["line 1: hip", "line 1: sm", "line 1: gfx942"]),
        ("def f(ck_home: str) -> None: ...", ["line 1: ck"]),
        ("call(flash_attn=1)", ["line 1: flash_attn"]),
        ('"""ck_tile on CUDA."""\nX = 1\n"""HIP."""', []),
        ('block_table = "check_out null_space cpu tick ship amdahl"', []),
    ],
)
def test_the_search_sees_what_it_forbids(source: str, found: list[str]) -> None:
    assert sorted(found_in(source)) == sorted(found)
