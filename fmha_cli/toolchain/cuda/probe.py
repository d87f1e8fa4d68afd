"""Identify a compiler for NVIDIA GPUs by compiling a small kernel. The answer is remembered until its files change."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from fmha_cli.domain.codec import to_json
from fmha_cli.toolchain.asking import ask
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import stamps
from fmha_cli.toolchain.cpp.headers import files_digest, parse_dependencies
from fmha_cli.toolchain.cpp.toolchain import Compiler, CompilerCandidate
from fmha_cli.toolchain.cuda.nvrtc import BUILTINS, LIBRARY
from fmha_cli.toolchain.cuda.packages import (
    ASSEMBLER,
    CCCL,
    COMPILER,
    RUNTIME,
    Wheel,
    WheelProblem,
    list_recorded,
    packaged_headers,
    wheel,
)
from fmha_cli.toolchain.proving import Probed, ProbeError, Search

_PROBE = 3
"""Raised when the probe's code changes, so the answers of an older probe are discarded."""
_NVCC_SOURCE = """#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
extern "C" __global__ void fmha_probe(float* x) { x[threadIdx.x] *= 2; }
"""
_RELEASE = re.compile(r"release \d+\.\d+, V(\d+\.\d+\.\d+)")

WITH_PTXAS = "nvrtc+ptxas"
"""NVRTC up to PTX, then ptxas."""


def own_command() -> tuple[str, ...]:
    """The command that starts the compile process; see ``__main__``."""
    return (sys.executable, "-P", "-m", "fmha_cli.toolchain.cuda")


class CudaKind(StrEnum):
    """The kinds of compilers."""

    NVRTC = "nvrtc"
    """NVIDIA's compiler library, from the ``cuda`` extra."""
    NVCC = "nvcc"
    """The compiler of an installed CUDA toolkit."""


@dataclass(frozen=True, kw_only=True)
class CudaToolchain(Compiler):
    """A compiler for NVIDIA GPUs that has compiled a kernel.

    Attributes:
        argv0: starts the separate process that the compiler runs in.
        version: name and build number, ``NVRTC 13.0.88``; part of every key.
        headers_digest: digest of the CUDA headers that kernels may see.
        kind: NVRTC or nvcc.
        path: the library or the program.
        capabilities: 10 x major + minor of the architectures that it compiles for.
        places: the folder that each ``${name}`` in a key's flags means on this machine: the compiler and its headers.
        extra: flags beyond the usual ones.
        ptxas: the assembler that makes the cubin of NVRTC's PTX; None where the compiler itself does.
    """

    argv0: tuple[str, ...] = field(default_factory=own_command)
    kind: CudaKind
    path: Path
    capabilities: tuple[int, ...]
    places: Mapping[str, str]
    extra: tuple[str, ...] = ()
    ptxas: Path | None = None

    @property
    def identity(self) -> str:
        """The key's "toolchain path". It is a name and not a path, because cubins move between machines."""
        return WITH_PTXAS if self.ptxas else self.kind.value


def ask_nvrtc(layout: CacheLayout, folders: Iterable[str] | None = None) -> CudaToolchain:
    """NVRTC of the wheels, with their headers.

    Args:
        folders: folders of modules to search instead of this Python's own.

    Raises:
        WheelProblem: a wheel is missing, of another release, or damaged.
        ProbeError: the library does not load, or compiles nothing.
        EnvironmentProblem: a header cannot be read, or the cache cannot be written.
    """
    where = None if folders is None else tuple(folders)
    library = _file_of(wheel(COMPILER, where), "lib", LIBRARY)
    runtime, cccl = wheel(RUNTIME, where), wheel(CCCL, where)
    command = (*own_command(), f"--nvrtc={library.parent}")

    def prove(work: Path) -> Probed[CudaToolchain]:
        watched = stamps([str(library), str(library.with_name(BUILTINS))])
        headers = packaged_headers(runtime, cccl)
        try:
            said = json.loads(_read_output((*command, "--ask"), work))
            version, capabilities = ".".join(map(str, said["version"])), tuple(said["capabilities"])
        except (ValueError, KeyError, TypeError) as fault:
            raise ProbeError(f"gave an invalid answer: {fault}") from fault
        toolchain = CudaToolchain(
            kind=CudaKind.NVRTC,
            path=library,
            version=f"NVRTC {version}",
            capabilities=capabilities,
            headers_digest=headers.digest,
            places={"nvrtc_library": str(library.parent), "cuda": str(headers.cuda), "cccl": str(headers.cccl)},
        )
        return Probed(toolchain, {**watched, **headers.watched})

    question = {"library": str(library), "headers": [str(runtime.record), str(cccl.record)]}
    return _recall_or_prove(layout, command, prove, question)


def ask_ptxas(nvrtc: CudaToolchain, layout: CacheLayout, folders: Iterable[str] | None = None) -> CudaToolchain:
    """NVRTC with the ptxas of its release as its assembler; the probe does not assemble anything.

    Args:
        folders: folders of modules to search instead of this Python's own.

    Raises:
        WheelProblem: the wheel is missing, of another release, or damaged.
        ProbeError: the program does not answer.
        EnvironmentProblem: the cache cannot be written.
    """
    program = _file_of(wheel(ASSEMBLER, folders), "bin", "ptxas")

    def prove(work: Path) -> Probed[CudaToolchain]:
        watched = stamps([str(program)])
        version = f"{nvrtc.version}, ptxas {_version_of(program, work)}"
        places = {**nvrtc.places, "ptxas": str(program)}
        return Probed(replace(nvrtc, ptxas=program, version=version, places=places), watched)

    return _recall_or_prove(layout, (str(program),), prove, {"nvrtc": to_json(nvrtc)})


def ask_nvcc(program: Path, layout: CacheLayout) -> CudaToolchain:
    """The compiler behind the program. Its own headers and those of its host compiler count by path.

    Raises:
        ProbeError: it does not answer, or compiles nothing.
        EnvironmentProblem: the cache cannot be written.
    """

    def prove(work: Path) -> Probed[CudaToolchain]:
        version = _version_of(program, work)
        (work / "probe.cu").write_text(_NVCC_SOURCE, "ascii")
        flags = ("-x", "cu", "-std=c++17", "-arch=sm_90", "probe.cu")
        listed = parse_dependencies(_read_output((str(program), "-M", *flags), work))
        headers = [path for name in listed if (path := Path(os.path.normpath(work / name))) != work / "probe.cu"]
        watched = stamps(map(str, (program, *headers)))
        _read_output((str(program), "-cubin", *flags, "-o", "probe.cubin"), work)
        codes = _read_output((str(program), "--list-gpu-code"), work)
        toolchain = CudaToolchain(
            kind=CudaKind.NVCC,
            path=program,
            version=f"nvcc {version}",
            capabilities=tuple(sorted({int(number) for number in re.findall(r"^sm_(\d+)$", codes, re.MULTILINE)})),
            headers_digest=files_digest(headers),
            places={"nvcc": str(program)},
        )
        return Probed(toolchain, watched)

    return _recall_or_prove(layout, (str(program),), prove, {"path": os.environ.get("PATH", "")})


def nvcc_candidates(environ: Mapping[str, str] | None = None) -> list[Path]:
    """The nvcc programs in CUDA_HOME, in CUDA_PATH, on PATH and in the usual place, without repeats."""
    env = os.environ if environ is None else environ
    named = [Path(env[name], "bin", "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    found = shutil.which("nvcc", path=env.get("PATH", os.defpath))
    usual = [*([Path(found)] if found else []), Path("/usr/local/cuda/bin/nvcc")]
    there = [path.absolute() for path in (*named, *usual) if os.access(path, os.X_OK)]
    return list({os.path.realpath(path): path for path in reversed(there)}.values())[::-1]


def _recall_or_prove(
    layout: CacheLayout,
    command: tuple[str, ...],
    prove: Callable[[Path], Probed[CudaToolchain]],
    question: Mapping[str, object],
) -> CudaToolchain:
    """The toolchain behind a command, remembered or proven now.

    Raises:
        ProbeError: it cannot be proven.
        EnvironmentProblem: the cache cannot be written.
    """
    search = Search[CompilerCandidate, CudaToolchain](
        what="compiler for NVIDIA GPUs",
        variable="compiler",
        kind=CudaToolchain,
        candidates=(),
        question=lambda candidate: {"probe": _PROBE, **question},
        prove=lambda candidate, work: prove(work),
        layout=layout,
        notify=lambda notice: None,
    )
    finding = search.examine(CompilerCandidate(command, "CUDA"))
    if finding.toolchain is None:
        raise ProbeError(finding.fault or "")
    return finding.toolchain


def _file_of(found: Wheel, folder: str, name: str) -> Path:
    """A file of a wheel by its name.

    Raises:
        WheelProblem: the wheel lacks it.
    """
    path = next((path for path in list_recorded(found, folder) if path.name == name), None)
    if path is None:
        raise WheelProblem(f"{found.name} {found.version} holds no {name}")
    return path


def _version_of(program: Path, work: Path) -> str:
    """The number after ``release`` in the version report of a CUDA program: ``13.0.88``."""
    version = _RELEASE.search(_read_output((str(program), "--version"), work))
    if version is None:
        raise ProbeError(f"{program} does not report its version")
    return version[1]


def _read_output(command: Sequence[str], work: Path) -> str:
    """The output of a command, both streams together.

    Raises:
        ProbeError: it cannot be started, fails or does not end.
        OSError: the cache cannot be written.
    """
    answer = ask(command, work)
    if not answer.ok:
        raise ProbeError(answer.fault)
    return answer.text
