"""Compilers as values: their properties, and where to look for them. Nothing here starts a process."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ZIG = "the ziglang package"
"""The origin of a candidate that a package of this Python provides."""

INSTALL_HELP = "install g++ or clang++ with the system's package manager, or `pip install ziglang`"


class ToolchainKind(StrEnum):
    """Compiler families that take different flags."""

    GCC = "gcc"
    CLANG = "clang"
    ZIG = "zig"
    """clang in the ``ziglang`` package: ``-march`` takes underscores, and no OpenMP runtime exists."""
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A compiler of any target, as building and caching see it.

    Attributes:
        argv0: the beginning of a command line; more than one word for ``ccache g++`` or ``zig c++``.
        version: the first line of its version report.
        headers_digest: digest of the system headers that generated kernels include; part of the build key.
    """

    argv0: tuple[str, ...]
    version: str
    headers_digest: str

    @property
    def identity(self) -> str:
        """The command that starts it, as one string: the build key's "toolchain path"."""
        return shlex.join(self.argv0)


@dataclass(frozen=True, kw_only=True)
class Toolchain(Compiler):
    """A compiler that has built a shared library: one that this Python could load, or one for another machine."""

    kind: ToolchainKind


@dataclass(frozen=True)
class CompilerCandidate:
    """A compiler that may exist on this machine.

    Attributes:
        argv0: the command; its first word is an absolute path if the program was found.
        origin: why it is considered: a variable, ``PATH`` or a package.
        found: whether the program exists.
        wished: the user named it for ``fmha``, so its failure must not be passed over.
    """

    argv0: tuple[str, ...]
    origin: str
    found: bool = True
    wished: bool = False

    @property
    def command(self) -> str:
        """The command as one string."""
        return shlex.join(self.argv0)


_NEWEST, _OLDEST = 40, 10


def candidates(environ: Mapping[str, str] | None = None) -> Iterator[CompilerCandidate]:
    """Compilers in order of preference: FMHA_CXX, CXX, g++, clang++, c++, those with a version in their name (newest
    first: distributions install ``clang++-22`` alone), the ``ziglang`` package.

    A program that has two names comes once. A program that a variable names and that does not exist comes with
    ``found=False``; other programs that do not exist are left out.
    """
    env = os.environ if environ is None else environ
    seen: set[tuple[str, ...]] = set()
    for candidate in _all_candidates(env):
        identity = (os.path.realpath(candidate.argv0[0]), *candidate.argv0[1:])
        if identity not in seen:
            seen.add(identity)
            yield candidate


def _all_candidates(env: Mapping[str, str]) -> Iterator[CompilerCandidate]:
    search = env.get("PATH", os.defpath)
    for variable in ("FMHA_CXX", "CXX"):
        yield from find_named(variable, env, wished=variable == "FMHA_CXX")
    for name in ("g++", "clang++", "c++", *_add_versions("g++"), *_add_versions("clang++")):
        yield from (CompilerCandidate((path,), "PATH") for path in _programs(search, name))
    zig = zig_command()
    if zig:
        yield CompilerCandidate(zig, ZIG)


def find_named(variable: str, env: Mapping[str, str], *, wished: bool) -> Iterator[CompilerCandidate]:
    """The compiler that a variable names, if it is set."""
    words = split_command(env.get(variable, ""))
    if words:
        path = shutil.which(words[0], path=env.get("PATH", os.defpath))
        argv0 = (os.path.abspath(path) if path else words[0], *words[1:])
        yield CompilerCandidate(argv0, variable, found=path is not None, wished=wished)


def on_path(search: str, name: str) -> Iterator[str]:
    """A program, then those with a version in their names, newest first; each under its own path."""
    yield from _programs(search, name, *_add_versions(name))


def _add_versions(name: str) -> tuple[str, ...]:
    return tuple(f"{name}-{version}" for version in range(_NEWEST, _OLDEST - 1, -1))


def _programs(search: str, *names: str) -> Iterator[str]:
    yield from (os.path.abspath(path) for name in names if (path := shutil.which(name, path=search)))


def split_command(command: str) -> list[str]:
    """The words of a command; one with unbalanced quotes is taken as a path with odd characters."""
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def zig_command() -> tuple[str, ...] | None:
    """How to start the ``ziglang`` package's C++ compiler, or None when it is not installed."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        return None
    # Its program directly: `python -m ziglang` starts the same program through another interpreter.
    program = Path(spec.origin).with_name("zig")
    return (str(program), "c++") if program.is_file() else (sys.executable, "-m", "ziglang", "c++")
