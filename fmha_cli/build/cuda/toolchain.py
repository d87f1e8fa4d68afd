"""Find a compiler for NVIDIA GPUs that works: NVRTC of the ``cuda`` extra, else an installed nvcc."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from fmha_cli.build.cuda.headers import packaged_headers
from fmha_cli.build.cuda.nvrtc import LIBRARY
from fmha_cli.build.cuda.packages import COMPILER, INSTALL_HELP, RELEASE, WheelProblem, recorded, wheel
from fmha_cli.build.cuda.probe import CudaProbeError, ask_nvcc, ask_nvrtc, nvcc_candidates, own_command
from fmha_cli.build.layout import CacheLayout
from fmha_cli.build.notice import Notice, NoticeKind, Notify, log_notice
from fmha_cli.build.root import open_root
from fmha_cli.errors import EnvironmentProblem, UsageError

__all__ = ["CudaFinding", "CudaKind", "CudaToolchain", "find_cuda", "find_nvcc", "survey_cuda"]


class CudaKind(StrEnum):
    """The compilers."""

    NVRTC = "nvrtc"
    """NVIDIA's compiler as a library, from the ``cuda`` extra."""
    NVCC = "nvcc"
    """The compiler of an installed CUDA toolkit."""


@dataclass(frozen=True)
class CudaToolchain:
    """A compiler for NVIDIA GPUs that was seen to work.

    Attributes:
        kind: which of the two. path: the library or the program.
        version: with its build number, ``NVRTC 13.0.88``: part of every key.
        capabilities: 10 x major + minor of the architectures that it compiles for.
        headers_digest: of the CUDA headers that kernels may see.
        places: what ``${name}`` in a key's flags stands for here: the compiler and its headers.
        extra: flags beyond the usual ones.
    """

    kind: CudaKind
    path: Path
    version: str
    capabilities: tuple[int, ...]
    headers_digest: str
    places: Mapping[str, str]
    extra: tuple[str, ...] = ()

    @property
    def argv0(self) -> tuple[str, ...]:
        """The beginning of a command line: the compiler runs in a process of its own."""
        return own_command()

    @property
    def identity(self) -> str:
        """The key's "toolchain path": a name, because cubins go from machine to machine."""
        return self.kind.value


@dataclass(frozen=True)
class CudaFinding:
    """What became of one compiler: a toolchain, or why not and what would help."""

    kind: CudaKind
    toolchain: CudaToolchain | None
    fault: str | None
    help: str | None = None


NEWER_NVVM = "nvrtc:nvvm-latest"
"""NVRTC with the newer of its two code generators, by itself used from sm_100 on. For older architectures it needs
fewer registers than the other one, and its option is not documented."""

COMPILERS: Mapping[str, tuple[CudaKind, tuple[str, ...]]] = MappingProxyType(
    {
        "nvrtc": (CudaKind.NVRTC, ()),
        NEWER_NVVM: (CudaKind.NVRTC, ("-nvvm-version=nvvm-latest",)),
        "nvcc": (CudaKind.NVCC, ()),
    }
)
"""What a user may ask for by name, with its extra flags."""


def find_cuda(
    cache_root: Path,
    *,
    notify: Notify = log_notice,
    folders: Iterable[str] | None = None,
    wished: str | None = None,
) -> CudaToolchain:
    """NVRTC if it works, else nvcc with a word about it. Costs a thousand ``stat`` calls when it was proven before.

    Args:
        folders: of modules, in place of this Python's own.
        wished: one of ``COMPILERS``: this one, or none.

    Raises:
        UsageError: no such name.
        EnvironmentProblem: neither works (B050), or the cache cannot be written.
    """
    if wished is not None and wished not in COMPILERS:
        raise UsageError(
            f"no CUDA compiler is called {wished!r}",
            code="E004",
            where="compiler",
            help=f"one of {', '.join(COMPILERS)}",
        )
    kind, extra = COMPILERS[wished or "nvrtc"]
    if kind is CudaKind.NVCC:
        findings = [_nvcc_finding(open_root(cache_root))]
    else:
        findings = survey_cuda(cache_root, folders=folders)
    findings = findings[:1] if wished else findings
    last = findings[-1].toolchain
    if last is None:
        raise EnvironmentProblem(
            "no compiler for NVIDIA GPUs works here",
            code="B050",
            why="; ".join(f"{finding.kind.value}: {finding.fault}" for finding in findings),
            help=f"{INSTALL_HELP} (NVRTC {RELEASE} and its headers; no CUDA toolkit and no driver is needed)",
        )
    if last.kind is CudaKind.NVCC and not wished:
        text = f"kernels are compiled by {last.path} ({last.version}), because NVRTC cannot: {findings[0].fault}"
        notify(Notice(NoticeKind.TOOLCHAIN, text))
    return replace(last, extra=extra)


def survey_cuda(cache_root: Path, *, folders: Iterable[str] | None = None) -> list[CudaFinding]:
    """Every compiler up to the first that works, for ``fmha doctor``.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    layout = open_root(cache_root)
    where = None if folders is None else tuple(folders)
    try:
        return [CudaFinding(CudaKind.NVRTC, _nvrtc(layout, where), None)]
    except (WheelProblem, CudaProbeError) as fault:
        first = CudaFinding(CudaKind.NVRTC, None, str(fault), INSTALL_HELP)
    return [first, _nvcc_finding(layout)]


def _nvcc_finding(layout: CacheLayout) -> CudaFinding:
    try:
        return CudaFinding(CudaKind.NVCC, _nvcc(layout), None)
    except CudaProbeError as fault:
        return CudaFinding(CudaKind.NVCC, None, str(fault), INSTALL_HELP)


def find_nvcc(cache_root: Path) -> CudaToolchain | None:
    """An installed nvcc that works; None without one.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    return _nvcc_finding(open_root(cache_root)).toolchain


def _nvrtc(layout: CacheLayout, folders: tuple[str, ...] | None) -> CudaToolchain:
    found = wheel(COMPILER, folders)
    headers = packaged_headers(layout, folders)
    library = next((path for path in recorded(found, "lib") if path.name == LIBRARY), None)
    if library is None:
        raise WheelProblem(f"{found.name} {found.version} holds no {LIBRARY}")
    answer = ask_nvrtc(library, layout)
    return CudaToolchain(
        kind=CudaKind.NVRTC,
        path=library,
        version=answer.version,
        capabilities=answer.capabilities,
        headers_digest=headers.digest,
        places={"nvrtc_library": str(library.parent), "cuda": str(headers.cuda), "cccl": str(headers.cccl)},
    )


def _nvcc(layout: CacheLayout) -> CudaToolchain:
    faults = []
    for program in nvcc_candidates():
        try:
            answer = ask_nvcc(program, layout)
        except CudaProbeError as fault:
            faults.append(f"{program}: {fault}")
            continue
        return CudaToolchain(
            kind=CudaKind.NVCC,
            path=program,
            version=answer.version,
            capabilities=answer.capabilities,
            headers_digest=answer.headers,
            places={"nvcc": str(program)},
        )
    raise CudaProbeError("; ".join(faults) or "none is on PATH, in CUDA_HOME or in /usr/local/cuda")
