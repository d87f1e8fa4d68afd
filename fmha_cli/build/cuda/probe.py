"""Ask a compiler for NVIDIA GPUs what it is, by letting it compile a small kernel; remembered until its files change."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.compile import first_error_line
from fmha_cli.build.cuda.nvrtc import BUILTINS
from fmha_cli.build.files import as_environment_problem, make_private_dir, remove_tree
from fmha_cli.build.headers import files_digest, parse_dependencies
from fmha_cli.build.layout import CacheLayout
from fmha_cli.build.memo import Stamps, recall, remember, stamps
from fmha_cli.build.process import compiler_environment, run_group
from fmha_cli.encode import digest_of

_PROBE = 1
"""Raised when the probe's code changes, so that what an older one found is not believed."""
_ASK_S = 120.0
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


class CudaProbeError(Exception):
    """A compiler that does not work; the message says why in one line."""


@dataclass(frozen=True)
class Answer:
    """What a compiler is: its version with its name and build, the architectures, and a digest of headers (nvcc)."""

    version: str
    capabilities: tuple[int, ...]
    headers: str = ""


def own_command() -> tuple[str, ...]:
    """How the compile process is started; see ``child``."""
    return (sys.executable, "-P", "-m", "fmha_cli.build.cuda")


def ask_nvrtc(library: Path, layout: CacheLayout) -> Answer:
    """What the library is.

    Raises:
        CudaProbeError: it does not load, or compiles nothing.
        EnvironmentProblem: the cache cannot be written.
    """
    watched = [str(library), str(library.with_name(BUILTINS))]

    def ask(work: Path) -> Answer:
        said = json.loads(_said((*own_command(), f"--nvrtc={library.parent}", "--ask"), work))
        return Answer("NVRTC " + ".".join(map(str, said["version"])), tuple(said["capabilities"]))

    return _remembered(layout, {"nvrtc": str(library)}, lambda work: (ask(work), stamps(watched)))


def ask_nvcc(program: Path, layout: CacheLayout) -> Answer:
    """What the program is. Its own headers and those of its host compiler count by path.

    Raises:
        CudaProbeError: it does not answer, or compiles nothing.
        EnvironmentProblem: the cache cannot be written.
    """

    def ask(work: Path) -> tuple[Answer, Stamps]:
        version = _RELEASE.search(_said((str(program), "--version"), work))
        if version is None:
            raise CudaProbeError(f"{program} does not say its version")
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
    """Where an nvcc lies: CUDA_HOME and CUDA_PATH, PATH, the usual place; without repeats."""
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
            raise CudaProbeError(f"gave an answer that is none: {fault}") from fault
        finally:
            remove_tree(work)
        # A cache that is read-only does without.
        with suppress(OSError):
            remember(memo, question, [answer.version, list(answer.capabilities), answer.headers], watched)
    return answer


def _said(command: Sequence[str], work: Path) -> str:
    """What a command prints; both streams together.

    Raises:
        CudaProbeError: it cannot be started, fails or does not end.
        OSError: the cache cannot be written.
    """
    scratch, said = work / "scratch", work / f"{uuid.uuid4().hex}.txt"
    scratch.mkdir(exist_ok=True)
    with said.open("xb", buffering=0) as file:
        try:
            ended = run_group(command, cwd=work, env=compiler_environment(scratch), output=file, timeout=_ASK_S)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise CudaProbeError(f"{command[0]} cannot be started: {error.strerror}") from error
    text = said.read_text("utf-8", errors="replace")
    if ended.returncode or ended.timed_out:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        why = f"did not end within {_ASK_S:.0f} s" if ended.timed_out else (lines or ["failed without a word"])[-1]
        raise CudaProbeError((first_error_line(text) or why)[:300])
    return text
