"""Small CUDA texts compiled by the NVRTC of the ``cuda`` extra, in this process; no driver is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from fmha_cli.toolchain.cuda.nvrtc import LIBRARY, Compiled, Nvrtc
from fmha_cli.toolchain.cuda.packages import COMPILER, RUNTIME, WheelProblem, list_recorded, wheel

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a")
_SAID = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<frame>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers, used (?P<barriers>\d+) barriers",
    re.DOTALL,
)


@dataclass(frozen=True)
class Said:
    """The figures that the assembler prints for a kernel with ``-v``."""

    registers: int
    barriers: int
    frame: int
    stores: int
    loads: int


@cache
def _nvrtc() -> tuple[Nvrtc, str]:
    library = next(path for path in list_recorded(wheel(COMPILER), "lib") if path.name == LIBRARY)
    include = next(path for path in list_recorded(wheel(RUNTIME), "include") if path.name == "cuda_fp16.h")
    return Nvrtc(library.parent), f"-I{include.parent}"


@cache
def compiled(text: str, arch: str, *options: str) -> Compiled:
    """A text compiled for an architecture; skips the test without NVRTC 13.0 and the CUDA headers."""
    try:
        nvrtc, include = _nvrtc()
    except (WheelProblem, StopIteration) as fault:
        pytest.skip(f"no NVRTC: {fault}; pip install '.[cuda]'")
    return nvrtc.compile(
        text.encode(), [f"-arch={arch}", "-default-device", "-std=c++17", include, *options], "tiny.cu"
    )


def cubin_of(text: str, arch: str, *options: str) -> bytes:
    """The cubin of a text."""
    done = compiled(text, arch, *options)
    assert done.cubin is not None, f"{arch}: {done.log}"
    return done.cubin


def said_of(text: str, arch: str, *options: str) -> dict[str, Said]:
    """The figures that the assembler prints for each kernel."""
    log = compiled(text, arch, "--ptxas-options=-v", *options).log
    found = [match.groupdict() for match in _SAID.finditer(log)]
    return {found_.pop("name"): Said(**{key: int(value) for key, value in found_.items()}) for found_ in found}


def nvdisasm() -> Path:
    """The disassembler, from a package or a toolkit; skips the test without it."""
    found = shutil.which("nvdisasm")
    if found is None:
        try:
            files = metadata.files("nvidia-cuda-nvdisasm") or []
            found = next((str(file.locate()) for file in files if file.name == "nvdisasm"), None)
        except metadata.PackageNotFoundError:
            found = None
    if found is None:
        pytest.skip("no nvdisasm: pip install nvidia-cuda-nvdisasm")
    Path(found).chmod(0o755)
    return Path(found)


def disassembly_of(cubin: bytes, folder: Path) -> str:
    """The output of ``nvdisasm -json``."""
    path = folder / "tiny.cubin"
    path.write_bytes(cubin)
    command = [str(nvdisasm()), "-json", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
