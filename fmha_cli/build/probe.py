"""Prove that a compiler works: build a tiny library, load it in a child process, call it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.compile import compile_library, first_error_line
from fmha_cli.build.headers import files_digest, listing_source, parse_dependencies
from fmha_cli.build.memo import Stamps, stamps
from fmha_cli.build.process import compiler_environment, run_group
from fmha_cli.build.toolchain import Candidate, Toolchain, ToolchainKind

_SOURCE = '#include <cmath>\nextern "C" double fmha_probe(double x) { return std::floor(x) + 1; }\n'
_FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC")
_LOAD = (
    "import ctypes, sys\n"
    "probe = ctypes.CDLL(sys.argv[1]).fmha_probe\n"
    "probe.restype, probe.argtypes = ctypes.c_double, [ctypes.c_double]\n"
    "sys.exit(0 if probe(41.5) == 42.0 else 1)\n"
)
_ASK_S = 60.0
_BUILD_S = {False: 60.0, True: 900.0}
"""Time limits by ``is_zig``: zig compiles its C++ runtime on first use, which takes half a minute or more."""

_WRAPPERS = ("ccache", "sccache", "distcc", "icecc")


class ProbeError(Exception):
    """A compiler that does not work; the message says why in one line."""


@dataclass(frozen=True)
class Probed:
    """A proven compiler, and the files that it depends on with their stamps from before the proof."""

    toolchain: Toolchain
    watched: Stamps


def probe(candidate: Candidate, work: Path) -> Probed:
    """Prove one compiler in an empty directory of the cache.

    Raises:
        ProbeError: it is missing, fails, or builds what this Python cannot load.
        OSError: the directory cannot be written.
    """
    programs = stamps(watched_programs(candidate))
    version = ask_version(candidate, work)
    headers = [str(path) for path in _headers(candidate, work)]
    before = stamps([*programs, *_helpers(candidate, work), *headers]) | programs
    toolchain = Toolchain(
        path=Path(candidate.argv0[0]),
        kind=_kind(candidate, version),
        version=version,
        argv0=candidate.argv0,
        headers_digest=files_digest(Path(path) for path in headers),
    )
    out = work / "probe.so"
    result = compile_library(toolchain, _SOURCE, _FLAGS, out, _BUILD_S[candidate.is_zig], work / "probe.log")
    if not result.ok:
        raise ProbeError(f"cannot build a shared library: {result.summary}")
    load = _run((sys.executable, "-I", "-S", "-c", _LOAD, str(out)), work, "load")
    if load is None:
        raise ProbeError("builds a shared library that this Python cannot load")
    return Probed(toolchain, before)


def ask_version(candidate: Candidate, work: Path) -> str:
    """The first line of ``--version``, with the target machine where the compiler tells it.

    Raises:
        ProbeError: it cannot be started or fails.
    """
    text = _run((*candidate.argv0, "--version"), work, "version")
    if text is None or not text.strip():
        raise ProbeError("does not answer --version")
    machine = (_run((*candidate.argv0, "-dumpmachine"), work, "machine") or "").strip()
    first = text.strip().splitlines()[0].strip()
    return f"{first} [{machine}]" if machine else first


def watched_programs(candidate: Candidate) -> list[str]:
    """Files that tell by a look whether the compiler is still the same."""
    words = [shutil.which(word) for word in candidate.argv0[1:]]
    return [candidate.argv0[0], *(word for word in words if word)]


def is_wrapper(candidate: Candidate) -> bool:
    """Whether the program only starts another one, which may change without the program's file changing."""
    real = os.path.realpath(candidate.argv0[0])
    if os.path.basename(real).startswith(_WRAPPERS) or (len(candidate.argv0) > 1 and not candidate.is_zig):
        return True
    try:
        with open(real, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def _helpers(candidate: Candidate, work: Path) -> list[str]:
    """The compiler proper behind a driver, where there is one."""
    text = (_run((*candidate.argv0, "-print-prog-name=cc1plus"), work, "helper") or "").strip()
    return [text] if os.path.isabs(text) else []


def _headers(candidate: Candidate, work: Path) -> list[Path]:
    """Every header that kernels may include, as the compiler finds them.

    Raises:
        ProbeError: the standard headers are missing.
    """
    source = work / "headers.cpp"
    source.write_text(listing_source())
    rule = _run((*candidate.argv0, "-std=c++17", "-M", source.name), work, "headers")
    if rule is None:
        words = (work / "headers.log").read_text("utf-8", errors="replace")
        raise ProbeError(f"lacks C++ headers: {first_error_line(words) or 'it fails to preprocess them'}")
    found = [Path(os.path.normpath(work / name)) for name in parse_dependencies(rule)]
    return [path for path in found if path != source]


def _kind(candidate: Candidate, version: str) -> ToolchainKind:
    if candidate.is_zig:
        return ToolchainKind.ZIG
    words = version.lower()
    if "clang" in words:
        return ToolchainKind.CLANG
    name = os.path.basename(candidate.argv0[0])
    is_gcc = any(mark in words for mark in ("g++", "gcc", "free software foundation")) or name.startswith("g++")
    return ToolchainKind.GCC if is_gcc else ToolchainKind.OTHER


def _run(argv: tuple[str, ...], work: Path, name: str) -> str | None:
    """Output of a short command (stdout and stderr), or None when it fails or cannot be started."""
    log = work / f"{name}.log"
    scratch = work / "scratch"
    scratch.mkdir(exist_ok=True)
    with log.open("wb", buffering=0) as file:
        try:
            ended = run_group(argv, cwd=work, env=compiler_environment(scratch), output=file, timeout=_ASK_S)
        except OSError as error:
            file.write(str(error).encode())
            return None
    return log.read_text("utf-8", errors="replace") if ended.returncode == 0 else None
