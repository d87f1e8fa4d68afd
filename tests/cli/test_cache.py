"""``fmha cache`` shows the kind of each entry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.report.schemas import schema
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec, key_for
from fmha_cli.toolchain.cache.store import BuildProduct, Cache
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind
from tests.cli.conftest import Fmha

COMPILER = Toolchain(argv0=("/c",), version="compiler 1", headers_digest="headers", kind=ToolchainKind.OTHER)
SPECS = {kind: BuildSpec(kind, f"some:{kind}", "generic", {"part": "all"}, "// text\n") for kind in BuildKind}


def product(work: Path) -> BuildProduct:
    (work / "out").write_bytes(b"bytes")
    (work / "log").write_text("log")
    return BuildProduct(work / "out", work / "log", 0.5)


def keep(key: BuildKey, root: Path) -> str:
    return Cache(root).get_or_build(key, product).digest


@pytest.fixture
def root(home: Path) -> Path:
    """A cache with one entry of each kind."""
    for spec in SPECS.values():
        keep(key_for(spec, ("-O3",), COMPILER), home / "kinds")
    return home / "kinds"


def test_every_kind_is_listed_under_its_name(fmha: Fmha, root: Path) -> None:
    rows = fmha("cache", "ls", "--cache-dir", str(root), "--json").document["entries"]
    assert {row["kind"]: row["name"] for row in rows} == {str(kind): spec.name for kind, spec in SPECS.items()}
    table = fmha("cache", "ls", "--cache-dir", str(root)).out
    assert all(f" {kind} " in table and spec.name in table for kind, spec in SPECS.items())


@pytest.mark.parametrize("kind", BuildKind)
def test_ls_filters_by_kind(fmha: Fmha, root: Path, kind: BuildKind) -> None:
    rows = fmha("cache", "ls", "--kind", kind, "--cache-dir", str(root), "--json").document["entries"]
    assert [row["kind"] for row in rows] == [kind]


def test_an_unknown_kind_is_refused(fmha: Fmha, root: Path) -> None:
    done = fmha("cache", "ls", "--kind", "kernels", "--cache-dir", str(root))
    assert done.code == 2
    assert "kernel" in done.err


def test_stats_count_each_kind(fmha: Fmha, root: Path) -> None:
    found = fmha("cache", "stats", "--cache-dir", str(root), "--json").document["stats"]["kinds"]
    assert {row["kind"]: row["entries"] for row in found} == dict.fromkeys(map(str, BuildKind), 1)
    assert all(row["bytes"] > 0 for row in found)
    assert "emulator entries" in fmha("cache", "stats", "--cache-dir", str(root)).out


@pytest.mark.parametrize("kind", [kind for kind in BuildKind if kind is not BuildKind.KERNEL])
def test_why_compares_an_entry_that_no_backend_names(fmha: Fmha, root: Path, kind: BuildKind) -> None:
    first = key_for(SPECS[kind], ("-O3",), COMPILER).digest
    second = keep(key_for(SPECS[kind], ("-O3",), replace(COMPILER, version="compiler 2")), root)
    for named, other in ((SPECS[kind].name, first), (second[:12], first), (first[:12], second)):
        why = fmha("cache", "why", named, "--cache-dir", str(root), "--json").document["why"]
        assert (why["standing"], why["nearest"]) == ("hit", other)
        assert [difference["part"] for difference in why["differences"]] == ["toolchain_version"]


def test_the_schema_names_the_kinds() -> None:
    assert schema("cache")["$defs"]["kind"]["enum"] == list(BuildKind)
