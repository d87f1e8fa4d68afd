"""The compiler as a program: ``python -m fmha_cli.toolchain.cuda TOOL FLAG... source.cpp -o OUT``.

``TOOL`` is ``--nvrtc=FOLDER``, the folder of the library, or ``--nvcc=PROGRAM``. The tool gets the flags unchanged. The
tool's messages go to the output; a line with ``error:`` is an error. The program writes a cubin for exactly the
architecture of ``-arch``, or none. It writes NVRTC's PTX, without its unused parts, next to the cubin as
``kernel.ptx``.

With ``--ptxas=PROGRAM`` after ``--nvrtc``, NVRTC makes PTX only. ``PROGRAM`` then makes the cubin from the PTX that is
kept, and gets the flags ``--ptxas-options=…``.

With ``--nvrtc=FOLDER --ask`` the program compiles a small kernel. It then prints as JSON the version of the library and
the architectures that it compiles for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fmha_cli.toolchain.cache.layout import PTX
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.nvrtc import Nvrtc, NvrtcProblem
from fmha_cli.toolchain.cuda.ptx import MalformedPtx, drop_unreferenced
from fmha_cli.toolchain.elf import MalformedObject

UNIT = "fmha.cu"
"""The name that NVRTC gets for every text. Symbols contain it, so it must not vary."""
PROBE_ARCH = "sm_90"
PROBE = """extern "C" __device__ __attribute__((used)) const int fmha_version[] = {
  __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__};
extern "C" __global__ void fmha_probe(float* x) { x[threadIdx.x] *= 2; }
"""
_ASSEMBLER, _ASSEMBLER_FLAG = "--ptxas=", "--ptxas-options="

Say = Callable[[str], None]


def main(arguments: Sequence[str], say: Say) -> int:
    """Compile or answer. Returns 0 on success, else 1."""
    tool, *rest = arguments
    kind, _, place = tool.partition("=")
    try:
        if rest == ["--ask"]:
            say(json.dumps(_answer(Nvrtc(Path(place)))))
            return 0
        *flags, source, _, out = rest
        arch = next(flag.partition("=")[2] for flag in flags if flag.startswith("-arch="))
        compile_with = _by_nvrtc if kind == "--nvrtc" else _by_nvcc
        cubin = compile_with(place, flags, Path(source), Path(out), say)
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
    """Why some bytes are not a cubin for the architecture with its suffix; None if they are."""
    if data[:4] != b"\x7fELF":
        what = "PTX" if b".version" in data[:4096] else "no ELF file"
        return f"the compiler gave {what} instead of a cubin"
    try:
        found = Cubin(data).arch
    except MalformedObject as fault:
        return f"the compiler gave a cubin that cannot be read: {fault}"
    return None if found == arch else f"the compiler gave a cubin for {found}, not for {arch}"


def _by_nvrtc(place: str, flags: Sequence[str], source: Path, out: Path, say: Say) -> bytes | None:
    assembler = next((flag.removeprefix(_ASSEMBLER) for flag in flags if flag.startswith(_ASSEMBLER)), None)
    options = [flag for flag in flags if not flag.startswith(_ASSEMBLER)]
    if assembler is not None:
        options = [flag.replace("-arch=sm_", "-arch=compute_") for flag in options if not _for_assembler(flag)]
    compiled = Nvrtc(Path(place)).compile(source.read_bytes(), options, UNIT)
    if compiled.log.strip():
        say(compiled.log.rstrip())
    if compiled.ptx is None:
        return None
    ptx = out.with_name(PTX)
    try:
        text = drop_unreferenced(compiled.ptx)
    except MalformedPtx as fault:
        say(f"{'# ' if assembler is None else 'error: '}the PTX cannot be read and is not kept: {fault}")
        return compiled.cubin
    ptx.write_text(text, "utf-8")
    say(f"# PTX: {len(compiled.ptx)} characters, {len(text)} without unused parts")
    return compiled.cubin if assembler is None else _assemble(assembler, flags, ptx, out, say)


def _for_assembler(flag: str) -> bool:
    return flag.startswith(_ASSEMBLER_FLAG)


def _assemble(assembler: str, flags: Sequence[str], ptx: Path, out: Path, say: Say) -> bytes | None:
    arch = next(flag for flag in flags if flag.startswith("-arch="))
    own = [flag.removeprefix(_ASSEMBLER_FLAG) for flag in flags if _for_assembler(flag)]
    return _ran("ptxas", [assembler, arch, "-v", *own, str(ptx), "-o", str(out)], out, say)


def _by_nvcc(place: str, flags: Sequence[str], source: Path, out: Path, say: Say) -> bytes | None:
    return _ran("nvcc", [place, *flags, str(source), "-o", str(out)], out, say)


def _ran(name: str, command: Sequence[str], out: Path, say: Say) -> bytes | None:
    ended = subprocess.run(command, check=False)
    if ended.returncode:
        say(f"# {name} exited with status {ended.returncode}")
        return None
    return out.read_bytes()


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


def _say(line: str) -> None:
    """Write a line to the log at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _say))
