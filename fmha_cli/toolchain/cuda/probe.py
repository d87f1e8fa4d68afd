"""Identify a compiler for NVIDIA GPUs by compiling a small kernel. The answer is remembered until its files change."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.encode import digest_of
from fmha_cli.toolchain.asking import ask
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir, remove_tree
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import Stamps, recall, remember, stamps
from fmha_cli.toolchain.cpp.headers import files_digest, parse_dependencies
from fmha_cli.toolchain.cuda.nvrtc import BUILTINS
from fmha_cli.toolchain.proving import ProbeError

_PROBE = 1
"""Raised when the probe's code changes, so that the answers of an older probe are not believed."""
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


@dataclass(frozen=True)
class Answer:
    """The description of a compiler.

    Attributes:
        version: with its name and build number.
        capabilities: the architectures that it compiles for.
        headers: digest of its headers (nvcc only).
    """

    version: str
    capabilities: tuple[int, ...]
    headers: str = ""


def own_command() -> tuple[str, ...]:
    """The command that starts the compile process; see ``child``."""
    return (sys.executable, "-P", "-m", "fmha_cli.toolchain.cuda")


def ask_nvrtc(library: Path, layout: CacheLayout) -> Answer:
    """The identity of the library.

    Raises:
        ProbeError: it does not load, or compiles nothing.
        EnvironmentProblem: the cache cannot be written.
    """
    watched = [str(library), str(library.with_name(BUILTINS))]

    def ask(work: Path) -> Answer:
        said = json.loads(_said((*own_command(), f"--nvrtc={library.parent}", "--ask"), work))
        return Answer("NVRTC " + ".".join(map(str, said["version"])), tuple(said["capabilities"]))

    return _remembered(layout, {"nvrtc": str(library)}, lambda work: (ask(work), stamps(watched)))


def ask_ptxas(program: Path, layout: CacheLayout) -> str:
    """The program's version with its name, ``ptxas 13.0.88``; the probe does not assemble anything.

    Raises:
        ProbeError: it does not answer.
        EnvironmentProblem: the cache cannot be written.
    """

    def ask(work: Path) -> tuple[Answer, Stamps]:
        version = _RELEASE.search(_said((str(program), "--version"), work))
        if version is None:
            raise ProbeError(f"{program} does not say its version")
        return Answer(f"ptxas {version[1]}", ()), stamps([str(program)])

    return _remembered(layout, {"ptxas": str(program)}, ask).version


def ask_nvcc(program: Path, layout: CacheLayout) -> Answer:
    """The identity of the program. Its own headers and those of its host compiler count by path.

    Raises:
        ProbeError: it does not answer, or compiles nothing.
        EnvironmentProblem: the cache cannot be written.
    """

    def ask(work: Path) -> tuple[Answer, Stamps]:
        version = _RELEASE.search(_said((str(program), "--version"), work))
        if version is None:
            raise ProbeError(f"{program} does not say its version")
        (work / "probe.cu").write_text(_NVCC_SOURCE, "ascii")
        flags = ("-x", "cu", "-std=c++17", "-arch=sm_90", "probe.cu")
        listed = parse_dependencies(_said((str(program), "-M", *flags), work))
        headers = [path for name in listed if (path := Path(os.path.normpath(work / name))) != work / "probe.cu"]
        watched = stamps(map(str, (program, *headers)))
        _said((str(program), "-cubin", *flags, "-o", "probe.cubin"), work)
        codes = _said((str(program), "--list-gpu-code"), work)
        capabilities = tuple(sorted({int(number) for number in re.findall(r"^sm_(\d+)$", codes, re.MULTILINE)}))
        return Answer(f"nvcc {version[1]}", capabilities, files_digest(headers)), watched

    return _remembered(layout, {"nvcc": str(program), "path": os.environ.get("PATH", "")}, ask)


def nvcc_candidates(environ: Mapping[str, str] | None = None) -> list[Path]:
    """The nvcc programs in CUDA_HOME, in CUDA_PATH, on PATH and in the usual place, without repeats."""
    env = os.environ if environ is None else environ
    named = [Path(env[name], "bin", "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    found = shutil.which("nvcc", path=env.get("PATH", os.defpath))
    usual = [*([Path(found)] if found else []), Path("/usr/local/cuda/bin/nvcc")]
    there = [path.absolute() for path in (*named, *usual) if os.access(path, os.X_OK)]
    return list({os.path.realpath(path): path for path in reversed(there)}.values())[::-1]


def _remembered(layout: CacheLayout, subject: object, ask: Callable[[Path], tuple[Answer, Stamps]]) -> Answer:
    question = {"probe": _PROBE, "python": sys.executable, "subject": subject}
    memo = layout.toolchains / f"cuda-{digest_of(question)[:16]}.json"
    known = recall(memo, question)
    if isinstance(known, list) and len(known) == 3:
        return Answer(str(known[0]), tuple(known[1]), str(known[2]))
    with as_environment_problem("probing the CUDA compiler"):
        work = layout.new_tmp()
        make_private_dir(work)
        try:
            answer, watched = ask(work)
        except (ValueError, KeyError, TypeError) as fault:
            raise ProbeError(f"gave an invalid answer: {fault}") from fault
        finally:
            remove_tree(work)
        # A read-only cache remembers nothing.
        with suppress(OSError):
            remember(memo, question, [answer.version, list(answer.capabilities), answer.headers], watched)
    return answer


def _said(command: Sequence[str], work: Path) -> str:
    """What a command prints; both streams together.

    Raises:
        ProbeError: it cannot be started, fails or does not end.
        OSError: the cache cannot be written.
    """
    answer = ask(command, work)
    if not answer.ok:
        raise ProbeError(answer.fault)
    return answer.text
