"""HIP compilers as values: what one is, and where to look for one. Nothing here starts a process."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

OLDEST_CLANG = 19
"""The oldest clang that reads the pinned device libraries. It knows gfx1201; gfx950 came with 20, gfx1250 later."""

INSTALL_HELP = (
    "install ROCm, or clang 19 or newer with lld and its tools: Debian and Ubuntu `apt install clang-22 lld-22 llvm-22 "
    "clang-tools-22` (any version from 19 on), Fedora `dnf install clang lld llvm clang-tools-extra`; FMHA_HIPCC names one"
)

_CLANG = re.compile(r"clang\+\+-(\d+)")
_COMPILERS = ("lib/llvm/bin/clang++", "llvm/bin/clang++", "lib64/rocm/llvm/bin/clang++", "bin/hipcc")
"""Where a ROCm keeps its compiler: since 6, before, as Fedora packages it, and the wrapper of all times."""


class RocmKind(StrEnum):
    """Where headers and device libraries come from."""

    ROCM = "rocm"
    """An installed ROCm."""
    CLANG = "clang"
    """A clang of the system, with a ROCm root put together from the pinned parts."""


@dataclass(frozen=True)
class RocmCandidate:
    """A HIP compiler that may be there.

    Attributes:
        argv0: the command; its first word is an absolute path if the program was found.
        origin: why it is considered. kind: what it has of ROCm.
        rocm: the installed ROCm it belongs to, None for ``CLANG``.
        found: whether the program exists. wished: the user named it, so that a failure must not be passed over.
    """

    argv0: tuple[str, ...]
    origin: str
    kind: RocmKind
    rocm: Path | None = None
    found: bool = True
    wished: bool = False

    @property
    def command(self) -> str:
        """The command as one string."""
        return shlex.join(self.argv0)


@dataclass(frozen=True)
class RocmToolchain:
    """A HIP compiler that was seen to work: it built a code object, and a host library that holds one.

    Attributes:
        argv0: the beginning of a command line. version: the first line of what it says about itself.
        kind: where its headers and device libraries come from. rocm_path: that place.
        archs: the architectures with facts that it knows.
        hip_version: of the headers, ``7.1.25424``.
        headers_digest: of all headers and device libraries that a kernel may see, part of every build key.
        options: those of ``flags.PROBED`` that it accepts.
        readelf, objdump, bundler: LLVM's tools of the same version; None where missing.
    """

    argv0: tuple[str, ...]
    version: str
    kind: RocmKind
    rocm_path: Path
    archs: tuple[str, ...]
    hip_version: str
    headers_digest: str
    options: tuple[str, ...]
    readelf: Path | None
    objdump: Path | None
    bundler: Path | None

    @property
    def compiler(self) -> Path:
        """Absolute path of the program."""
        return Path(self.argv0[0])

    @property
    def path(self) -> Path:
        """As ``compiler``; the name that every toolchain has."""
        return self.compiler

    @property
    def identity(self) -> str:
        """The command that starts it, as one string: the build key's "toolchain path"."""
        return shlex.join(self.argv0)


def candidates(environ: Mapping[str, str] | None = None) -> Iterator[RocmCandidate]:
    """Compilers in order of preference: FMHA_HIPCC, an installed ROCm's own, clang++-NN (newest first), clang++.

    A program that two names lead to is given once. A program that FMHA_HIPCC names and that does not exist is
    given with ``found=False``; others that do not exist are left out.
    """
    env = os.environ if environ is None else environ
    seen: set[tuple[str, RocmKind]] = set()
    for candidate in (*_wished(env), *_of_rocm(env), *_of_system(env)):
        identity = (os.path.realpath(candidate.argv0[0]), candidate.kind)
        if identity not in seen:
            seen.add(identity)
            yield candidate


def rocm_roots(environ: Mapping[str, str]) -> list[Path]:
    """Installed ROCms: ROCM_PATH, /opt/rocm, versions beside it newest first, and where ``hipcc`` on PATH lies."""
    named = [Path(environ["ROCM_PATH"])] if environ.get("ROCM_PATH") else []
    versions = sorted(Path("/opt").glob("rocm-*"), key=lambda path: _numbers(path.name), reverse=True)
    hipcc = shutil.which("hipcc", path=environ.get("PATH", os.defpath))
    behind = [Path(hipcc).resolve().parent.parent] if hipcc else []
    found = [path for path in (*named, Path("/opt/rocm"), *versions, *behind) if is_rocm(path)]
    return list({path.resolve(): path for path in found}.values())


def is_rocm(path: Path) -> bool:
    """Whether a folder has the headers of HIP."""
    return (path / "include" / "hip" / "hip_version.h").is_file()


def _wished(env: Mapping[str, str]) -> Iterator[RocmCandidate]:
    try:
        words = shlex.split(env.get("FMHA_HIPCC", ""))
    except ValueError:
        words = [env["FMHA_HIPCC"]]
    if not words:
        return
    path = shutil.which(words[0], path=env.get("PATH", os.defpath))
    argv0 = (os.path.abspath(path) if path else words[0], *words[1:])
    # A compiler below a ROCm uses that one; /usr is no ROCm to a clang of the system, whatever lies in /usr/include.
    parents = Path(os.path.realpath(argv0[0])).parents
    rocm = next((parent for parent in parents if is_rocm(parent) and parent != Path("/usr")), None)
    kind = RocmKind.CLANG if rocm is None else RocmKind.ROCM
    yield RocmCandidate(argv0, "FMHA_HIPCC", kind, rocm, found=path is not None, wished=True)


def _of_rocm(env: Mapping[str, str]) -> Iterator[RocmCandidate]:
    for root in rocm_roots(env):
        for name in _COMPILERS:
            if os.access(root / name, os.X_OK):
                yield RocmCandidate((str(root / name),), f"ROCm in {root}", RocmKind.ROCM, root)
                break


def _of_system(env: Mapping[str, str]) -> Iterator[RocmCandidate]:
    found: dict[int, str] = {}
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        for name in _names(folder):
            match = _CLANG.fullmatch(name)
            if match and int(match[1]) >= OLDEST_CLANG and os.access(os.path.join(folder, name), os.X_OK):
                found.setdefault(int(match[1]), os.path.abspath(os.path.join(folder, name)))
    plain = shutil.which("clang++", path=env.get("PATH", os.defpath))
    for path in (
        *(found[number] for number in sorted(found, reverse=True)),
        *([os.path.abspath(plain)] if plain else []),
    ):
        yield RocmCandidate((path,), "PATH", RocmKind.CLANG)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))
