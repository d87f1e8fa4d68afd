"""Find a working compiler for NVIDIA GPUs: NVRTC and ptxas of the ``cuda`` extra, else an installed nvcc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from fmha_cli.domain.errors import EnvironmentProblem, FmhaError, UsageError
from fmha_cli.domain.installation import CheckState, DoctorCheck, Surroundings
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cuda.packages import ASSEMBLER, INSTALL_HELP, RELEASE, WheelProblem
from fmha_cli.toolchain.cuda.probe import (
    WITH_PTXAS,
    CudaKind,
    CudaToolchain,
    ask_nvcc,
    ask_nvrtc,
    ask_ptxas,
    nvcc_candidates,
)
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify, log_notice
from fmha_cli.toolchain.proving import ProbeError, ToolProof

_CHECK = "CUDA compiler"


CudaFinding = ToolProof[CudaKind, CudaToolchain]

NEWER_NVVM = "nvrtc:nvvm-latest"
"""NVRTC with the newer of its two code generators, which NVRTC itself uses from sm_100 on. For older architectures the
newer one needs fewer registers. Its option is not documented."""

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
        wished: one of ``COMPILERS``. No other compiler is used then.

    Raises:
        UsageError: no such name.
        EnvironmentProblem: neither works (B050), ``WITH_PTXAS`` is requested and there is no ptxas (B052), or the cache
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
            why="; ".join(f"{finding.candidate.value}: {finding.fault}" for finding in findings),
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
        return ask_ptxas(nvrtc, open_root(cache_root), folders)
    except (WheelProblem, ProbeError) as fault:
        raise EnvironmentProblem(
            "the assembler for NVIDIA GPUs does not work here",
            code="B052",
            why=str(fault),
            help=f"{INSTALL_HELP} ({ASSEMBLER} {RELEASE}; no CUDA toolkit and no driver is needed)",
        ) from fault


def survey_cuda(cache_root: Path, *, folders: Iterable[str] | None = None) -> list[CudaFinding]:
    """The results for every compiler up to the first that works, for ``fmha doctor``.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    layout = open_root(cache_root)
    try:
        return [CudaFinding(CudaKind.NVRTC, ask_nvrtc(layout, folders), None)]
    except (WheelProblem, ProbeError) as fault:
        first = CudaFinding(CudaKind.NVRTC, None, str(fault), INSTALL_HELP)
    return [first, _nvcc_finding(layout)]


def _nvcc_finding(layout: CacheLayout) -> CudaFinding:
    """The first nvcc that works, or why none does."""
    faults = []
    for program in nvcc_candidates():
        try:
            return CudaFinding(CudaKind.NVCC, ask_nvcc(program, layout), None)
        except ProbeError as fault:
            faults.append(f"{program}: {fault}")
    why = "; ".join(faults) or "none is on PATH, in CUDA_HOME or in /usr/local/cuda"
    return CudaFinding(CudaKind.NVCC, None, why, INSTALL_HELP)


def find_nvcc(cache_root: Path) -> CudaToolchain | None:
    """An installed nvcc that works; None if there is none.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    return _nvcc_finding(open_root(cache_root)).toolchain


def check_compilers(here: Surroundings) -> Iterator[DoctorCheck]:
    """Check compilers up to the first that works. Having none is not a failure, because archived kernels still run."""
    try:
        findings = survey_cuda(here.cache_root)
    except FmhaError as error:
        yield DoctorCheck.failed(_CHECK, "NVRTC", error)
        return
    for finding in findings:
        found, subject = finding.toolchain, finding.candidate.value
        state = CheckState.SKIPPED if found is None else CheckState.OK
        what = "passed over" if found is None else f"{found.version} in {found.path.parent}"
        yield DoctorCheck(name=_CHECK, subject=subject, state=state, what=what, why=finding.fault, help=finding.help)
        if found is not None and found.kind is CudaKind.NVRTC:
            yield _assembler(found, here)


def _assembler(nvrtc: CudaToolchain, here: Surroundings) -> DoctorCheck:
    """Check the separate assembler for NVRTC's PTX, which only some kernels need."""
    try:
        found = with_ptxas(nvrtc, here.cache_root)
    except FmhaError as error:
        state, why, help_ = CheckState.SKIPPED, error.why, error.help
        return DoctorCheck(name=_CHECK, subject="ptxas", state=state, what="passed over", why=why, help=help_)
    assert found.ptxas is not None
    what = f"{found.version.rpartition(', ')[2]} in {found.ptxas.parent}"
    return DoctorCheck(name=_CHECK, subject="ptxas", state=CheckState.OK, what=what)
