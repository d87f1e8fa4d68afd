"""Builds the program that runs upstream's host code: clang compiles the fetched sources for the host only."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sources.store import fetch_source
from tests.support.referees.upstream_host.building import SHARED, key_of, linked
from tests.support.run_cache import once

HERE = Path(__file__).parent
OWN = ("main.cpp", "runtime.cpp")
UPSTREAM = (
    "flash_api.cpp",
    "src/flash.h",
    "src/flash_bwd_launch_template.h",
    "src/flash_fwd_launch_template.h",
    "src/hardware_info.h",
    "src/kernel_traits.h",
    "src/namespace_config.h",
    "src/philox_unpack.cuh",
    "src/static_switch.h",
)
"""The kernels' headers are left out; the compiler looks next to the including file first and finds ours."""
UNIT = "instances.cu"
"""Upstream's 72 instance files, merged into one, so CUTLASS is read once."""
HOST = ("-O0", "-std=c++20", "-x", "c++")
CUDA = ("-O0", "-std=c++17", "-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "--cuda-path=/nowhere")
LAUNCH = ("-Xclang", "-target-sdk-version=12.8")
"""From CUDA 9.2 on, a launch is cudaLaunchKernel, which takes all arguments at once."""


def _compiler() -> str:
    for name in ("clang++-22", "clang++-21", "clang++-20", "clang++-19"):
        if found := shutil.which(name):
            return found
    pytest.skip("no clang++ of version 19 to 22 is here: upstream's host code cannot be compiled")


def host_program(cache_root: Path) -> Path:
    """The program, built once per cache; skips the test, with the reason, if it cannot be built."""
    try:
        tree = fetch_source("flash-attn", cache_root, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's sources are not here: {fault}")
    return _built(tree, cache_root, _compiler())


@cache
def _built(tree: Path, cache_root: Path, compiler: str) -> Path:
    return once(cache_root, "flash", key_of(compiler, tree, [HERE]), lambda work: _build(tree / "csrc", work, compiler))


def _build(csrc: Path, work: Path, compiler: str) -> Path:
    flash = csrc / "flash_attn"
    (work / "src").mkdir()
    instances = sorted(flash.glob("src/flash_*.cu"))
    assert len(instances) == 72, "upstream's files of instances are others than was known"
    for path in (*(flash / name for name in UPSTREAM), *instances):
        shutil.copyfile(path, work / path.relative_to(flash))
    (work / UNIT).write_text("".join(f'#include "{path.name}"\n' for path in instances))
    folders = (HERE / "include", HERE, work, work / "src", csrc / "cutlass" / "include")
    common = ("-DNDEBUG", *(f"-I{folder}" for folder in folders))
    own = [(HERE / name, (*HOST, *common)) for name in (*OWN, *SHARED)]
    return linked(compiler, [(work / UNIT, (*CUDA, *LAUNCH, *common)), *own], work)
