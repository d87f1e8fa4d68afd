"""Find a C++ compiler that builds for another machine than this one. Its output is inspected, never loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cpp.find import find_toolchain, prove, unchanged
from fmha_cli.toolchain.cpp.toolchain import ZIG, CompilerCandidate, Toolchain, named_by, on_path, zig_command
from fmha_cli.toolchain.elf import machine_of_file
from fmha_cli.toolchain.notice import Notify, log_notice
from fmha_cli.toolchain.proving import ProbeError, Search

ANY = "any"
"""The machine of code that is compiled for the building machine."""


def toolchain_for(
    machine: str, layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Toolchain:
    """The first compiler that works for a machine: for this one :func:`find_toolchain`'s, else a cross compiler.

    Args:
        machine: ``x86_64``, ``aarch64``, or ``any`` for this one.

    Raises:
        EnvironmentProblem: none works (B006 lists each with its reason and names what to install), the one that the
            variable names does not (B005), or the cache cannot be written.
    """
    if machine in (ANY, machine_here()):
        return find_toolchain(layout, notify, environ)
    absent = f"there is no {machine}-linux-gnu-g++, clang++ or ziglang package here, and {variable(machine)} is not set"
    install = f"install {_package(machine)} with the system's package manager, or `pip install ziglang`"
    search = cross_search(machine, layout, notify, environ)
    return search.first(codes=("B005", "B006"), absent=absent, install=install)


def variable(machine: str) -> str:
    """The variable that names the compiler for a machine."""
    return f"FMHA_CXX_{machine.upper()}"


def cross_search(
    machine: str, layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Search[CompilerCandidate, Toolchain]:
    """The search for a compiler that builds for a machine."""
    return Search(
        what=f"C++ compiler for {machine}",
        variable=variable(machine),
        kind=Toolchain,
        candidates=cross_candidates(machine, environ),
        question=lambda candidate: {"machine": machine, "probe": 1},
        prove=partial(prove, notify, partial(_check, machine)),
        still_good=lambda candidate, known: unchanged(candidate, known, layout),
        layout=layout,
        notify=notify,
    )


def cross_candidates(machine: str, environ: Mapping[str, str] | None = None) -> Iterator[CompilerCandidate]:
    """Compilers in order of preference: the variable's, GCC for the machine, clang++ (which needs that GCC's libraries),
    the ``ziglang`` package (which has its own)."""
    env = os.environ if environ is None else environ
    search, triple = env.get("PATH", os.defpath), f"{machine}-linux-gnu"
    yield from named_by(variable(machine), env, wished=True)
    for path in on_path(search, f"{triple}-g++"):
        yield CompilerCandidate((path,), "PATH")
    for path in on_path(search, "clang++"):
        yield CompilerCandidate((path, f"--target={triple}"), "PATH")
    if zig := zig_command():
        yield CompilerCandidate((*zig, "-target", triple), ZIG)


def _package(machine: str) -> str:
    debian = {"x86_64": "x86-64"}.get(machine, machine)
    return f"g++-{debian}-linux-gnu"


def _check(machine: str, library: Path, work: Path) -> None:
    """Whether a library is for the machine.

    Raises:
        ProbeError: it is not.
    """
    if machine_of_file(library) != machine:
        raise ProbeError(f"builds no shared library for {machine}")
