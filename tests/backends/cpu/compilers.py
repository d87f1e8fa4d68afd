"""Compilers by family, under whatever name a distribution gives them."""

from __future__ import annotations

import os

import pytest

from fmha_cli.toolchain.cpp.toolchain import ToolchainKind, on_path, zig_command

COMPILERS = {"g++": ToolchainKind.GCC, "clang++": ToolchainKind.CLANG, "zig": ToolchainKind.ZIG}


def command_of(name: str) -> tuple[str, ...]:
    """The beginning of a command line; skips the test where there is none. Debian installs ``clang++-22`` alone."""
    programs = ((path,) for path in on_path(os.environ["PATH"], name))
    command = zig_command() if name == "zig" else next(programs, None)
    if command is None:
        pytest.skip(f"no {name}")
    return command
