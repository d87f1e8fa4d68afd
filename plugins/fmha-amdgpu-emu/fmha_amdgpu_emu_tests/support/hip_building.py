"""Plain HIP texts compiled for the tests, and processes that run on the emulator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from fmha_amdgpu_emu.building import build_emulator

from fmha_amdgpu_emu_tests.support.harness import tool
from fmha_cli.backends.hip.rocm_parts import rocm_supply
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.plugin import BuildContext, cache_root
from fmha_cli.toolchain.notice import Notice
from fmha_cli.toolchain.rocm.candidates import RocmToolchain
from fmha_cli.toolchain.rocm.toolchain import find_rocm
from tests.support.paths import importable
from tests.support.run_cache import once

VARIANTS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1100-wave64", "gfx1201-wave64")
"""Architectures, with separate entries for RDNA with waves of 64 lanes."""

_SECONDS = 300


def arch_of(variant: str) -> str:
    """The architecture of a variant."""
    return variant.partition("-")[0]


def _say_nothing(notice: Notice) -> None:
    """A listener that ignores notices."""


@cache
def _toolchain(root: Path) -> RocmToolchain | EnvironmentProblem:
    try:
        return find_rocm(root, parts=rocm_supply(root, offline=False, notify=_say_nothing), notify=_say_nothing)
    except EnvironmentProblem as error:
        if error.code not in ("B031", "S102"):
            raise
        return error


def toolchain() -> RocmToolchain:
    """The HIP compiler of this machine; skips the test without one."""
    found = _toolchain(cache_root())
    if isinstance(found, EnvironmentProblem):
        pytest.skip(f"{found.what}: {found.why}")
    return found


def compiled(source: Path, *flags: str) -> Path:
    """A HIP text compiled, once in a run of tests. Raises AssertionError with the compiler's messages."""
    found = toolchain()
    words = ("-std=c++20", "-O3", "-w", *flags)
    key = digest_of([found.identity, found.version, found.headers_digest, source.read_text("utf-8"), words])

    def build(work: Path) -> Path:
        root = f"--rocm-path={found.rocm_path}"
        command = [*found.argv0, "-x", "hip", root, *words, str(source), "-o", str(work / "out")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        assert done.returncode == 0, done.stderr
        return work / "out"

    return once(cache_root(), source.stem, key, build)


def code_object(source: Path, variant: str, *flags: str) -> Path:
    """The code object of a HIP text for a variant."""
    wide = ("-mwavefrontsize64",) if variant.endswith("-wave64") else ()
    device = (f"--offload-arch={arch_of(variant)}", "--cuda-device-only", "--no-gpu-bundle-output")
    return compiled(source, *device, *wide, *flags)


@cache
def library() -> Path:
    """The emulator: the library in ``FMHA_EMU_LIBRARY``, or else one built in the cache of the environment."""
    named = os.environ.get("FMHA_EMU_LIBRARY")
    return Path(named) if named else build_emulator(BuildContext(cache_root=cache_root(), jobs=2)).path


def environment(arch: str, folder: Path, **more: str) -> dict[str, str]:
    """The environment of a process whose device is emulated."""
    return {
        **os.environ,
        "PYTHONPATH": importable(),
        "FMHA_EMU_ARCH": arch,
        "FMHA_EMU_OBJDUMP": tool("llvm-objdump-22", "llvm-objdump"),
        "FMHA_EMU_CACHE": str(folder),
        **more,
    }


def run_child(script: Path, arch: str, folder: Path, *words: str, **more: str) -> str:
    """The output of a Python script in a separate process. Raises AssertionError with its error output."""
    return run([sys.executable, str(script), *words], environment(arch, folder, **more))


def run(command: Sequence[str], env: Mapping[str, str]) -> str:
    """The output of a program. Raises AssertionError if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=_SECONDS)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
