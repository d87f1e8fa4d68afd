"""The PTX of ``plain_kernels.cu`` from two compilers with different front ends and PTX writers: NVRTC and clang."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.plugin import llvm_tool
from fmha_cli.toolchain.cuda.nvrtc import LIBRARY, Nvrtc
from fmha_cli.toolchain.cuda.packages import COMPILER, WheelProblem, list_recorded, wheel

KERNELS = Path(__file__).with_name("plain_kernels.cu")
COMPILERS = ("nvrtc", "clang")


@cache
def ptx(compiler: str, arch: str) -> str:
    """The module. Skips the test where the compiler is not installed or does not know the architecture."""
    return nvrtc(KERNELS.read_text("utf-8"), arch) if compiler == "nvrtc" else _clang(arch)


def nvrtc(text: str, arch: str) -> str:
    """NVRTC's PTX of a source. Skips the test where NVRTC is not installed."""
    try:
        library = next(path for path in list_recorded(wheel(COMPILER), "lib") if path.name == LIBRARY)
    except WheelProblem as fault:
        pytest.skip(f"NVRTC is not installed (pip install 'fmha[cuda]'): {fault}")
    options = (f"-arch={arch.replace('sm_', 'compute_')}", "-std=c++17")
    made = Nvrtc(library.parent).compile(text.encode(), options, KERNELS.name)
    assert made.ptx is not None, made.log
    return made.ptx


def _clang(arch: str) -> str:
    program = llvm_tool("clang++")
    if program is None:
        pytest.skip("no clang++ is installed")
    listed = subprocess.run([program, "--print-supported-cpus", "--target=nvptx64"], capture_output=True, text=True)
    if arch not in (listed.stdout + listed.stderr).split():
        pytest.skip(f"{program} does not know {arch}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "plain.ptx")
        flags = ("-x", "cuda", "-std=c++17", "-O2", "--cuda-device-only", "-S", "-nocudainc", "-nocudalib")
        done = subprocess.run(
            [program, *flags, f"--cuda-gpu-arch={arch}", "-Wno-unknown-cuda-version", KERNELS, "-o", out],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return out.read_text("utf-8")
