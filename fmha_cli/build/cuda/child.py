"""The compiler as a program: ``python -m fmha_cli.build.cuda TOOL FLAG... source.cpp -o OUT``.

``TOOL`` is ``--nvrtc=FOLDER`` (of the library) or ``--nvcc=PROGRAM``. Flags go to the tool as they are. What the tool
says goes to the output; an error is a line with ``error:``. The result is a cubin for the very architecture of
``-arch``, or there is none. With ``--nvrtc=FOLDER --ask`` the program says as JSON which version it is and what it
compiles for, having compiled a small kernel.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from fmha_cli.build.cuda.cubin import Cubin
from fmha_cli.build.cuda.nvrtc import Nvrtc, NvrtcProblem
from fmha_cli.build.elf import MalformedObject

UNIT = "fmha_fa2.cu"
"""What NVRTC calls every text: its symbols are made of it."""
PROBE_ARCH = "sm_90"
PROBE = """extern "C" __device__ __attribute__((used)) const int fmha_version[] = {
  __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__};
extern "C" __global__ void fmha_probe(float* x) { x[threadIdx.x] *= 2; }
"""

Say = Callable[[str], None]


def main(arguments: Sequence[str], say: Say) -> int:
    """Compile, or answer; 0 when that went well."""
    tool, *rest = arguments
    kind, _, place = tool.partition("=")
    try:
        if rest == ["--ask"]:
            say(json.dumps(_answer(Nvrtc(Path(place)))))
            return 0
        *flags, source, _, out = rest
        arch = next(flag.partition("=")[2] for flag in flags if flag.startswith("-arch="))
        compile_with = _by_nvrtc if kind == "--nvrtc" else _by_nvcc
        cubin = compile_with(place, flags, source, out, say)
        if cubin is None:
            return 1
        fault = cubin_fault(cubin, arch)
        if fault is not None:
            Path(out).unlink(missing_ok=True)
            say(f"error: {fault}")
            return 1
    except NvrtcProblem as problem:
        say(f"error: {problem}")
        return 1
    Path(out).write_bytes(cubin)
    return 0


def cubin_fault(data: bytes, arch: str) -> str | None:
    """Why some bytes are no cubin for the architecture, its suffix included; None for one."""
    if data[:4] != b"\x7fELF":
        what = "PTX" if b".version" in data[:4096] else "no ELF file"
        return f"the compiler gave {what} where a cubin was asked for"
    try:
        found = Cubin(data).arch
    except MalformedObject as fault:
        return f"the compiler gave a cubin that cannot be read: {fault}"
    return None if found == arch else f"the compiler gave a cubin for {found}, not for {arch}"


def _by_nvrtc(place: str, flags: Sequence[str], source: str, out: str, say: Say) -> bytes | None:
    compiled = Nvrtc(Path(place)).compile(Path(source).read_bytes(), flags, UNIT)
    if compiled.log.strip():
        say(compiled.log.rstrip())
    return compiled.cubin


def _by_nvcc(place: str, flags: Sequence[str], source: str, out: str, say: Say) -> bytes | None:
    ended = subprocess.run([place, *flags, source, "-o", out], check=False)
    if ended.returncode:
        say(f"# nvcc exited with status {ended.returncode}")
        return None
    return Path(out).read_bytes()


def _answer(nvrtc: Nvrtc) -> dict[str, object]:
    compiled = nvrtc.compile(PROBE.encode(), (f"-arch={PROBE_ARCH}",), UNIT)
    if compiled.cubin is None:
        raise NvrtcProblem(f"a small kernel does not compile: {compiled.log.strip()[:300]}")
    fault = cubin_fault(compiled.cubin, PROBE_ARCH)
    if fault is not None:
        raise NvrtcProblem(fault)
    words = Cubin(compiled.cubin).data_of("fmha_version")
    version = [int.from_bytes(words[i : i + 4], "little") for i in (0, 4, 8)]
    return {"version": version, "capabilities": list(nvrtc.capabilities())}
