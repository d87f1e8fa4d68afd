"""Compilers by family, under whatever name a distribution gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


PROBLEMS = (
    "-b 2 -H 4 --kv-heads 2 -s 70 -d 40 --causal --direction fwd+bwd --bias elementwise --dbias",
    "-b 2 -H 8 --kv-heads 2 -s 2 --kv-cache paged:16 --cache-seqlens 300,70 --append 2 --rotary 8 -d 40 --splits 3 --causal",
    "-b 2 -H 8 --kv-heads 1 -s 1 --kv-cache linear --cache-seqlens 300,70 -d 72 --mla-rope 8",
)
"""Together they need a kernel of every kind."""


def kernels_run(cxx: str, arch: str, dtype: str, cache: Path) -> set[str]:
    """The kernels that a compiler (``FMHA_CXX``) built and that pass here on problems of every kind."""
    env = {**os.environ, "FMHA_CXX": cxx, "FMHA_CACHE_DIR": str(cache)}
    kernels = set()
    for problem in PROBLEMS:
        words = ["validate", "--backend", "cpu", "--arch", arch, "--dtype", dtype, *problem.split(), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "fmha_cli", *words], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        kernels |= {stage["kernel"] for record in json.loads(done.stdout)["records"] for stage in record["stages"]}
    return kernels
