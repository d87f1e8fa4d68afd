"""HIP compilers and their tools as values: their properties, and where to look for them. Nothing here starts a process."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fmha_cli.toolchain.cpp.toolchain import Compiler, CompilerCandidate, split_command
from fmha_cli.toolchain.rocm.installed import installed_roots, is_rocm

OLDEST_CLANG = 19
"""The oldest clang that reads the pinned device libraries. It knows gfx1201; gfx950 came with 20, gfx1250 later."""

INSTALL_HELP = (
    "install ROCm, or clang 19 or newer with lld and its tools: Debian and Ubuntu `apt install clang-22 lld-22 llvm-22 "
    "clang-tools-22` (any version from 19 on), Fedora `dnf install clang lld llvm clang-tools-extra`; FMHA_HIPCC names one"
)

_CLANG = re.compile(r"clang\+\+-(\d+)")
_NUMBERED = re.compile(r"-(\d+)$")
_NEWEST_LLVM, _OLDEST_LLVM = 40, 18
_COMPILERS = ("lib/llvm/bin/clang++", "llvm/bin/clang++", "lib64/rocm/llvm/bin/clang++", "bin/hipcc")
"""Where ROCm has its compiler: since version 6, before version 6, in Fedora's packages, and the wrapper of any version."""


class RocmKind(StrEnum):
    """Where headers and device libraries come from."""

    ROCM = "rocm"
    """An installed ROCm."""
    CLANG = "clang"
    """A clang of the system, with a ROCm root put together from the pinned parts."""


@dataclass(frozen=True)
class RocmCandidate(CompilerCandidate):
    """A HIP compiler that may exist on this machine.

    Attributes:
        rocm: the installed ROCm that it belongs to; None for a clang of the system.
    """

    rocm: Path | None = None

    @property
    def kind(self) -> RocmKind:
        """Where its headers and device libraries would come from."""
        return RocmKind.CLANG if self.rocm is None else RocmKind.ROCM


@dataclass(frozen=True, kw_only=True)
class RocmToolchain(Compiler):
    """A HIP compiler that has built a code object, and a host library that holds one.

    Attributes:
        headers_digest: digest of all headers and device libraries that a kernel may see; part of every build key.
        kind: where its headers and device libraries come from.
        rocm_path: the root of those headers and libraries.
        archs: the architectures that it knows among those with facts.
        hip_version: version of the HIP headers, ``7.1.25424``.
        options: the flags among ``compile.probed_flags`` that it accepts.
    """

    kind: RocmKind
    rocm_path: Path
    archs: tuple[str, ...]
    hip_version: str
    options: tuple[str, ...]


def candidates(environ: Mapping[str, str] | None = None) -> Iterator[RocmCandidate]:
    """Compilers in order of preference: FMHA_HIPCC, an installed ROCm's own, clang++-NN (newest first), clang++.

    A program that has two names comes once. A program that FMHA_HIPCC names and that does not exist comes with
    ``found=False``; other programs that do not exist are left out.
    """
    env = os.environ if environ is None else environ
    seen: set[tuple[str, RocmKind]] = set()
    for candidate in (*_find_wished(env), *_of_rocm(env), *_of_system(env)):
        identity = (os.path.realpath(candidate.argv0[0]), candidate.kind)
        if identity not in seen:
            seen.add(identity)
            yield candidate


def rocm_roots(environ: Mapping[str, str]) -> list[Path]:
    """Installed ROCms that have the headers of HIP, in the order of :func:`installed_roots`."""
    return [root for root in installed_roots(environ) if is_rocm(root)]


def rocm_compiler(root: Path) -> Path | None:
    """The compiler of a ROCm; None where it has none."""
    return next((root / name for name in _COMPILERS if os.access(root / name, os.X_OK)), None)


def llvm_tool(name: str, compiler: Path | None = None, search: str | None = None) -> Path | None:
    """The LLVM program ``name`` (``llvm-objdump``) that belongs to a compiler; None where there is none.

    The search covers the compiler's folder (names with and without the compiler's version), the folder of the file that
    the compiler's path leads to, the place where ROCm has LLVM, and then the search path. On the search path the newest
    comes first, because a program without a version in its name is often a distribution's old default.

    Args:
        compiler: absolute path of the clang or hipcc that built the code.
        search: a search path instead of ``PATH``.
    """
    for path in _places(name, compiler):
        if os.access(path, os.X_OK) and path.is_file():
            return path
    for tried in (*(f"{name}-{version}" for version in range(_NEWEST_LLVM, _OLDEST_LLVM - 1, -1)), name):
        found = shutil.which(tried, path=search)
        if found:
            return Path(found)
    return None


def _find_wished(env: Mapping[str, str]) -> Iterator[RocmCandidate]:
    words = split_command(env.get("FMHA_HIPCC", ""))
    if not words:
        return
    path = shutil.which(words[0], path=env.get("PATH", os.defpath))
    argv0 = (os.path.abspath(path) if path else words[0], *words[1:])
    # A compiler inside a ROCm uses that ROCm. A clang of the system does not use /usr as a ROCm, whatever is in
    # /usr/include.
    parents = Path(os.path.realpath(argv0[0])).parents
    rocm = next((parent for parent in parents if is_rocm(parent) and parent != Path("/usr")), None)
    yield RocmCandidate(argv0, "FMHA_HIPCC", found=path is not None, wished=True, rocm=rocm)


def _of_rocm(env: Mapping[str, str]) -> Iterator[RocmCandidate]:
    for root in rocm_roots(env):
        compiler = rocm_compiler(root)
        if compiler is not None:
            yield RocmCandidate((str(compiler),), f"ROCm in {root}", rocm=root)


def _of_system(env: Mapping[str, str]) -> Iterator[RocmCandidate]:
    found: dict[int, str] = {}
    for folder in filter(None, env.get("PATH", os.defpath).split(os.pathsep)):
        for program in Path(folder).glob("clang++-*"):
            match = _CLANG.fullmatch(program.name)
            if match and int(match[1]) >= OLDEST_CLANG and os.access(program, os.X_OK):
                found.setdefault(int(match[1]), os.path.abspath(program))
    plain = shutil.which("clang++", path=env.get("PATH", os.defpath))
    newest_first = [found[number] for number in sorted(found, reverse=True)]
    for path in (*newest_first, *([os.path.abspath(plain)] if plain else [])):
        yield RocmCandidate((path,), "PATH")


def _places(name: str, compiler: Path | None) -> Iterator[Path]:
    if compiler is None:
        return
    version = _NUMBERED.search(compiler.name)
    names = (f"{name}{version[0]}", name) if version else (name,)
    for folder in dict.fromkeys((compiler.parent, Path(os.path.realpath(compiler)).parent)):
        yield from (folder / spelt for spelt in names)
        yield folder.parent / "llvm" / "bin" / name
