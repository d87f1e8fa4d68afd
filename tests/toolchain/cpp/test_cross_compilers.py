"""Compilers for other machines: where they are looked for, what proves them, and what is said without one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp import find
from fmha_cli.toolchain.cpp.find import cross_candidates, cross_search, find_toolchain, toolchain_for
from fmha_cli.toolchain.cpp.toolchain import CompilerCandidate, ToolchainKind

OTHER = "x86_64" if machine_here() == "aarch64" else "aarch64"
GXX = shutil.which("g++")
HELP = {"aarch64": "g++-aarch64-linux-gnu", "x86_64": "g++-x86-64-linux-gnu"}


@pytest.fixture
def no_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "zig_command", lambda: None)


def commands(machine: str, env: dict[str, str]) -> list[str]:
    return [" ".join((os.path.basename(c.argv0[0]), *c.argv0[1:])) for c in cross_candidates(machine, env)]


def test_order_of_preference(tmp_path: Path, script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-g++-12", "clang++-22", "g++", "mine"):
        script(tmp_path / name, "#!/bin/sh\n")
    monkeypatch.setattr(find, "zig_command", lambda: ("/zig", "c++"))
    env = {"PATH": str(tmp_path), "FMHA_CXX_AARCH64": "mine -O", "FMHA_CXX": "g++", "CXX": "g++"}
    assert commands("aarch64", env) == [
        *("mine -O", "aarch64-linux-gnu-g++", "aarch64-linux-gnu-g++-12"),
        *("clang++-22 --target=aarch64-linux-gnu", "zig c++ -target aarch64-linux-gnu"),
    ]
    assert commands("x86_64", env) == [
        *("clang++-22 --target=x86_64-linux-gnu", "zig c++ -target x86_64-linux-gnu"),
    ]


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
@pytest.mark.usefixtures("no_zig")
def test_none_is_said_with_what_to_install(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=f"no C\\+\\+ compiler for {OTHER} works here") as caught:
        toolchain_for(OTHER, cache.layout, environ={"PATH": str(tmp_path)})
    assert caught.value.code == "B006"
    assert f"FMHA_CXX_{OTHER.upper()}" in str(caught.value.why)
    assert HELP[OTHER] in str(caught.value.help)


@pytest.mark.usefixtures("no_zig")
@pytest.mark.skipif(GXX is None, reason="there is no g++ on PATH")
def test_a_compiler_for_this_machine_is_no_cross_compiler(cache: Cache) -> None:
    """It builds a library that this Python could load; its header gives it away."""
    env = {"PATH": "", f"FMHA_CXX_{OTHER.upper()}": str(GXX)}
    with pytest.raises(EnvironmentProblem, match=f"FMHA_CXX_{OTHER.upper()}") as caught:
        toolchain_for(OTHER, cache.layout, environ=env)
    assert (caught.value.code, "builds no shared library for" in str(caught.value)) == ("B005", True)


@pytest.mark.skipif(GXX is None, reason="there is no g++ on PATH")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("machine", ["any", machine_here()])
def test_this_machine_needs_none(cache: Cache, machine: str) -> None:
    env = {"PATH": os.environ["PATH"]}
    assert toolchain_for(machine, cache.layout, environ=env) == find_toolchain(cache.layout, environ=env)


@pytest.mark.usefixtures("no_zig")
@pytest.mark.parametrize("kind", [ToolchainKind.GCC, ToolchainKind.CLANG])
def test_every_cross_compiler_here_is_proven_and_remembered(cache: Cache, kind: ToolchainKind) -> None:
    search = cross_search(OTHER, cache.layout)
    found = [(c, search.examine(c)) for c in cross_candidates(OTHER) if ("clang" in c.command) == (kind == "clang")]
    working = [(c, f.toolchain) for c, f in found if f.toolchain is not None]
    if not working:
        pytest.skip(f"no {kind} for {OTHER}: {[f.fault for _, f in found]}")
    for candidate, toolchain in working:
        assert (toolchain.kind, toolchain.argv0) == (kind, candidate.argv0)
        assert OTHER in toolchain.version

        def never(candidate: CompilerCandidate, work: Path) -> Any:
            raise AssertionError("proven again")

        again = cross_search(OTHER, cache.layout)
        object.__setattr__(again, "prove", never)
        assert again.examine(candidate).toolchain == toolchain
