"""Builds the program that runs upstream's host code: clang compiles the fetched sources for the host only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sources.store import fetched

HERE = Path(__file__).parent
OWN = ("main.cpp", "runtime.cpp", "tensor.cpp")
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
UNITS = ("flash_fwd", "flash_bwd")
"""Upstream's 72 instance files, merged into two, so that CUTLASS is read twice and not 72 times."""
HOST = ("-O1", "-std=c++20", "-x", "c++")
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
        tree = fetched("flash-attn", cache_root, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's sources are not here: {fault}")
    return _built(tree, cache_root, _compiler())


@cache
def _built(tree: Path, cache_root: Path, compiler: str) -> Path:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=600).stdout
    key = hashlib.sha256(version + str(tree).encode())
    for path in sorted(p for p in HERE.rglob("*") if p.suffix not in (".py", ".pyc") and p.is_file()):
        key.update(path.read_bytes())
    key.update(Path(__file__).read_bytes())
    folder = cache_root / "upstream-host"
    folder.mkdir(exist_ok=True)
    program = folder / f"host-{key.hexdigest()[:16]}"
    with open(folder / "lock", "w") as lock:  # the processes of a test run share the cache
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(tree / "csrc", folder / "work", compiler).rename(program)
            shutil.rmtree(folder / "work")
    return program


def _build(csrc: Path, work: Path, compiler: str) -> Path:
    flash = csrc / "flash_attn"
    shutil.rmtree(work, ignore_errors=True)
    (work / "src").mkdir(parents=True)
    instances = sorted(flash.glob("src/flash_*.cu"))
    assert len(instances) == 72, "upstream's files of instances are others than was known"
    for path in (*(flash / name for name in UPSTREAM), *instances):
        shutil.copyfile(path, work / path.relative_to(flash))
    for unit in UNITS:
        parts = [p.name for p in instances if p.name.startswith(unit)]
        (work / f"{unit}.cu").write_text("".join(f'#include "{name}"\n' for name in parts))
    folders = (HERE / "include", HERE, work, work / "src", csrc / "cutlass" / "include")
    common = ["-w", "-DNDEBUG", *(f"-I{folder}" for folder in folders), "-c"]

    def compile_one(source: Path) -> Path:
        out = work / f"{source.name}.o"
        kind = (*CUDA, *LAUNCH) if source.suffix == ".cu" else HOST
        _run([compiler, *kind, *common, str(source), "-o", str(out)])
        return out

    sources = [*(work / f"{unit}.cu" for unit in UNITS), *(HERE / name for name in OWN)]
    with ThreadPoolExecutor(max_workers=min(4, len(os.sched_getaffinity(0)))) as pool:
        objects = list(pool.map(compile_one, sources))
    # The names of kernels are looked up through the dynamic symbols.
    _run([compiler, "-rdynamic", *map(str, objects), "-ldl", "-o", str(work / "host")])
    return work / "host"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-4000:]}"
