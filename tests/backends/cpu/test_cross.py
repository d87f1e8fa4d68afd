"""Other compilers and another architecture (slow): clang++, zig c++, and aarch64 under an emulator."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from backward_cases import DTYPES, backward_complaints, make_backward, random_backward, run_backward
from cpu_cases import Case, arguments, complaints, kernel_of, make_data, random_case, run

from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.backends.cpu.building import compile_flags
from fmha_cli.codegen.abi import FmhaCpuArgs
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.codegen.struct import c_fields, pack
from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind

pytestmark = pytest.mark.slow
COMPILERS, KINDS = ["clang++", "zig"], ["prefill", "decode"]


def cases(dtype: str, kind: str, count: int) -> list[Case]:
    out = []
    for seed in range(count):
        rng = np.random.default_rng([seed, 99])
        out.append(random_case(rng, dtype, few_rows=kind == "decode"))
        make_data(out[-1], rng)
    return out


def compiled(compiler: str, arch: str, dtype: str, kind: str, folder: Path) -> ctypes.CDLL:
    """The library of a kernel by another compiler. Skips the test if that or the architecture is not here."""
    if arch not in backend.probe().devices[0].archs:
        pytest.skip(f"this machine does not run {arch}")
    if compiler == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("no ziglang package")
        command, family = [sys.executable, "-m", "ziglang", "c++"], ToolchainKind.ZIG
    else:
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler}")
        command, family = [compiler], ToolchainKind.CLANG
    (folder / "k.cpp").write_text(emit(kernel_of(arch, dtype, kind)))
    flags = compile_flags(load_arch(arch), family)
    subprocess.run([*command, *flags, "k.cpp", "-o", "k.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "k.so"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_compiler(compiler: str, arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    library = compiled(compiler, arch, dtype, kind, tmp_path)
    for case in cases(dtype, kind, 12):
        run(library, case)
        assert complaints(case) == [], case


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_backward_by_a_compiler(compiler: str, arch: str, dtype: str, tmp_path: Path) -> None:
    library = compiled(compiler, arch, dtype, "backward", tmp_path)
    for seed in range(12):
        rng = np.random.default_rng([seed, 99])
        case = random_backward(rng, dtype)
        make_backward(case, rng)
        run_backward(library, case)
        assert backward_complaints(case) == [], case


DRIVER = """
#include <stdio.h>
int main(int argc, char** argv) {
  FILE* f = fopen(argv[1], "rb");
  fseek(f, 0, SEEK_END);
  const long size = ftell(f);
  rewind(f);
  char* image = (char*)malloc(size);
  if (argc != 3 || fread(image, 1, size, f) != (size_t)size) return 99;
  fclose(f);
  FmhaCpuArgs a;
  memcpy(&a, image, sizeof a);
RELOCATE
  const int status = fmha_cpu_fwd(&a);
  fmha_cpu_release();
  f = fopen(argv[2], "wb");
  fwrite(image, 1, size, f);
  fclose(f);
  return status;
}
"""


def image_of(case: Case) -> tuple[bytearray, dict[str, int]]:
    """The argument block with file offsets instead of pointers, followed by every buffer that it points to."""
    block = arguments(case)
    buffers = [a for n, a in case.data.items() if n in ("lse", "bias", "alibi_slopes", "sink_logits") or "_" in n]
    image, places = bytearray(4096), {}
    for array in {id(a): a for a in buffers}.values():
        places[array.ctypes.data] = (len(image), array.nbytes)
        image += array.tobytes() + bytes(-array.nbytes % 64 + 64)
    values = {f.name: getattr(block, f.name) for f in fields(FmhaCpuArgs)}
    offsets = {}
    for name, kind in c_fields(FmhaCpuArgs):
        if "*" in kind.spelling and values[name]:
            base = next(b for b, (_, n) in places.items() if b <= values[name] <= b + n)
            offsets[name] = values[name] = places[base][0] + values[name] - base
    raw = bytes(pack(FmhaCpuArgs(**values)))
    image[: len(raw)] = raw
    return image, offsets


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_aarch64(dtype: str, kind: str, tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64-static")
    if compiler is None or emulator is None:
        pytest.skip("no aarch64 cross compiler, or no emulator")
    pointers = [n for n, k in c_fields(FmhaCpuArgs) if "*" in k.spelling]
    moves = "\n".join(f"  if (a.{n}) a.{n} = (decltype(a.{n}))(image + (intptr_t)a.{n});" for n in pointers)
    text = emit(kernel_of("generic", dtype, kind)) + DRIVER.replace("RELOCATE", moves)
    (tmp_path / "k.cpp").write_text(text)
    flags = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-pthread", "-static"]
    subprocess.run([compiler, *flags, "k.cpp", "-o", "k"], cwd=tmp_path, check=True)
    for case in cases(dtype, kind, 8):
        image, offsets = image_of(case)
        (tmp_path / "in").write_bytes(image)
        subprocess.run([emulator, "./k", "in", "out"], cwd=tmp_path, check=True, timeout=600)
        result = (tmp_path / "out").read_bytes()
        o, lse = case.data["o_buffer"], case.data["lse"]
        first = offsets["o"] - (case.data["o"].ctypes.data - o.ctypes.data)
        o[...] = np.frombuffer(result, o.dtype, o.size, first)
        lse[...] = np.frombuffer(result, lse.dtype, lse.size, offsets["lse"]).reshape(lse.shape)
        assert complaints(case) == [], case
