"""Find a working compiler for NVIDIA GPUs: NVRTC and ptxas of the ``cuda`` extra, else an installed nvcc."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cpp.toolchain import Compiler
from fmha_cli.toolchain.cuda.headers import packaged_headers
from fmha_cli.toolchain.cuda.nvrtc import LIBRARY
from fmha_cli.toolchain.cuda.packages import ASSEMBLER, COMPILER, INSTALL_HELP, RELEASE, WheelProblem, recorded, wheel
from fmha_cli.toolchain.cuda.probe import ask_nvcc, ask_nvrtc, ask_ptxas, nvcc_candidates, own_command
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify, log_notice
from fmha_cli.toolchain.proving import ProbeError

__all__ = ["CudaFinding", "CudaKind", "CudaToolchain", "find_cuda", "find_nvcc", "survey_cuda", "with_ptxas"]


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


@dataclass(frozen=True)
class CudaFinding:
    """The result for one compiler: a toolchain, or why there is none and what would help."""

    kind: CudaKind
    toolchain: CudaToolchain | None
    fault: str | None
    help: str | None = None


NEWER_NVVM = "nvrtc:nvvm-latest"
"""NVRTC with the newer of its two code generators, which NVRTC itself uses from sm_100 on. For older architectures the
newer one needs fewer registers. Its option is not documented."""

WITH_PTXAS = "nvrtc+ptxas"
"""NVRTC up to PTX, then ptxas."""

COMPILERS: Mapping[str, tuple[CudaKind, tuple[str, ...]]] = MappingProxyType(
    {
        "nvrtc": (CudaKind.NVRTC, ()),
        WITH_PTXAS: (CudaKind.NVRTC, ()),
        NEWER_NVVM: (CudaKind.NVRTC, ("-nvvm-version=nvvm-latest",)),
        "nvcc": (CudaKind.NVCC, ()),
    }
)
"""The compilers that a user may request by name, with their extra flags."""


def find_cuda(
    cache_root: Path, *, notify: Notify = log_notice, folders: Iterable[str] | None = None, wished: str | None = None
) -> CudaToolchain:
    """NVRTC if it works, else nvcc with a notice. Costs a thousand ``stat`` calls when it was proven before.

    Args:
        folders: of modules, in place of this Python's own.
        wished: one of ``COMPILERS``: this one, or none.

    Raises:
        UsageError: no such name.
        EnvironmentProblem: neither works (B050), ``WITH_PTXAS`` is wished and there is no ptxas (B052), or the cache
            cannot be written.
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
    found = replace(last, extra=extra)
    return with_ptxas(found, cache_root, folders=folders) if wished == WITH_PTXAS else found


def with_ptxas(nvrtc: CudaToolchain, cache_root: Path, *, folders: Iterable[str] | None = None) -> CudaToolchain:
    """NVRTC with the ptxas of its release as its assembler.

    Args:
        folders: folders of modules to search instead of this Python's own.

    Raises:
        EnvironmentProblem: no ptxas works (B052), or the cache cannot be written.
    """
    try:
        found = wheel(ASSEMBLER, folders)
        program = next((path for path in recorded(found, "bin") if path.name == "ptxas"), None)
        if program is None:
            raise WheelProblem(f"{found.name} {found.version} holds no ptxas")
        version = ask_ptxas(program, open_root(cache_root))
    except (WheelProblem, ProbeError) as fault:
        raise EnvironmentProblem(
            "the assembler for NVIDIA GPUs does not work here",
            code="B052",
            why=str(fault),
            help=f"{INSTALL_HELP} ({ASSEMBLER} {RELEASE}; no CUDA toolkit and no driver is needed)",
        ) from fault
    places = {**nvrtc.places, "ptxas": str(program)}
    return replace(nvrtc, ptxas=program, version=f"{nvrtc.version}, {version}", places=places)


def survey_cuda(cache_root: Path, *, folders: Iterable[str] | None = None) -> list[CudaFinding]:
    """The results for every compiler up to the first that works, for ``fmha doctor``.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    layout = open_root(cache_root)
    where = None if folders is None else tuple(folders)
    try:
        return [CudaFinding(CudaKind.NVRTC, _nvrtc(layout, where), None)]
    except (WheelProblem, ProbeError) as fault:
        first = CudaFinding(CudaKind.NVRTC, None, str(fault), INSTALL_HELP)
    return [first, _nvcc_finding(layout)]


def _nvcc_finding(layout: CacheLayout) -> CudaFinding:
    try:
        return CudaFinding(CudaKind.NVCC, _nvcc(layout), None)
    except ProbeError as fault:
        return CudaFinding(CudaKind.NVCC, None, str(fault), INSTALL_HELP)


def find_nvcc(cache_root: Path) -> CudaToolchain | None:
    """An installed nvcc that works; None if there is none.

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
        except ProbeError as fault:
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
    raise ProbeError("; ".join(faults) or "none is on PATH, in CUDA_HOME or in /usr/local/cuda")
