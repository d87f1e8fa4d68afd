"""Find a HIP compiler that works. Earlier proofs are remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem, FmhaError
from fmha_cli.domain.installation import CheckState, DoctorCheck, Surroundings
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.notice import Notify, as_text, log_notice
from fmha_cli.toolchain.proving import Search, ToolProof
from fmha_cli.toolchain.rocm.candidates import (
    INSTALL_HELP,
    RocmCandidate,
    RocmKind,
    RocmToolchain,
    candidates,
    rocm_compiler,
)
from fmha_cli.toolchain.rocm.compile import probed_flags
from fmha_cli.toolchain.rocm.installed import installed_roots, is_rocm, named_roots, runtimes
from fmha_cli.toolchain.rocm.probe import PROBE_SOURCE, probe_rocm
from fmha_cli.toolchain.rocm.root import STUBS, RocmSupply, isa_versions

_PROBE = 7
"""Raised when the probe's code changes, so the results of an older probe are discarded."""

_ABSENT = "there is no ROCm, and no clang++ of version 19 or newer on PATH"
_CHECK = "HIP compiler"


def find_rocm(
    cache_root: Path, *, parts: RocmSupply, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> RocmToolchain:
    """The first HIP compiler that works. Costs some hundred ``stat`` calls when it was proven before.

    Args:
        parts: the parts of ROCm that a clang of the system lacks (``backends.hip.rocm_parts``); fetched only when such
            a compiler is proven.

    Raises:
        EnvironmentProblem: none works (B031 lists each with its reason and names what to install), the one named
            by FMHA_HIPCC does not (B030), the parts are unavailable, or the cache cannot be written.
    """
    search = _search(cache_root, parts, notify, environ)
    return search.first(codes=("B030", "B031"), absent=_ABSENT, install=INSTALL_HELP)


def survey_rocm(
    cache_root: Path, *, parts: RocmSupply, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> list[ToolProof[RocmCandidate, RocmToolchain]]:
    """Every candidate up to the first that works, for ``fmha doctor``.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    search = _search(cache_root, parts, notify, environ)
    found: list[ToolProof[RocmCandidate, RocmToolchain]] = []
    for candidate in search.candidates:
        try:
            found.append(search.examine(candidate))
        except EnvironmentProblem as error:
            found.append(ToolProof(candidate, None, error.in_one_line, error.help))
        if found[-1].toolchain is not None:
            break
    return found


def check_compilers(here: Surroundings, parts: RocmSupply) -> Iterator[DoctorCheck]:
    """The check of ``fmha doctor``. A machine without an AMD GPU needs no HIP compiler, so a missing one is not a failure."""
    try:
        findings = survey_rocm(here.cache_root, parts=parts, notify=as_text(here.notify), environ=here.environ)
    except FmhaError as error:
        yield DoctorCheck.failed(_CHECK, "hipcc", error)
        return
    for finding in findings:
        subject, found = finding.candidate.command, finding.toolchain
        if found is not None:
            what = f"{found.version}, HIP {found.hip_version} in {found.rocm_path}"
            yield DoctorCheck(name=_CHECK, subject=subject, state=CheckState.OK, what=what)
        else:
            state = CheckState.FAILED if finding.candidate.wished else CheckState.SKIPPED
            what = f"cannot build for AMD GPUs (from {finding.candidate.origin})"
            yield DoctorCheck(
                name=_CHECK, subject=subject, state=state, what=what, why=finding.fault, help=finding.help
            )
    yield from _bare_roots(here.environ)
    if not findings:
        what = "none is installed"
        yield DoctorCheck(name=_CHECK, subject="hipcc", state=CheckState.SKIPPED, what=what, help=INSTALL_HELP)


def _bare_roots(environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """The ROCms that could be taken for compilers and hold none, as wheels for running alone do; and named folders that hold nothing."""
    named = named_roots(environ)
    for root in dict.fromkeys((*named, *installed_roots(environ))):
        parts = {"HIP runtime": runtimes(root), "headers": is_rocm(root), "compiler": rocm_compiler(root)}
        lacks = [name for name, there in parts.items() if not there]
        if lacks == ["HIP runtime"] or not lacks or (len(lacks) == len(parts) and root not in named):
            continue
        what = f"this ROCm has no {' and no '.join(lacks)}" if len(lacks) < len(parts) else "there is no ROCm"
        yield DoctorCheck(name=_CHECK, subject=str(root), state=CheckState.SKIPPED, what=what, help=INSTALL_HELP)


def _search(
    cache_root: Path, parts: RocmSupply, notify: Notify, environ: Mapping[str, str] | None
) -> Search[RocmCandidate, RocmToolchain]:
    layout = open_root(cache_root)

    def question(candidate: RocmCandidate) -> dict[str, object]:
        return {
            "cache": str(layout.root),
            "isa": isa_versions(),
            "kind": candidate.kind.value,
            "parts": parts.identity if candidate.kind is RocmKind.CLANG else "",
            "probe": [_PROBE, PROBE_SOURCE, [flag.text for flag in probed_flags()], dict(STUBS)],
            "rocm": str(candidate.rocm),
        }

    return Search(
        what="compiler for AMD GPUs",
        variable="FMHA_HIPCC",
        kind=RocmToolchain,
        candidates=candidates(environ),
        question=question,
        prove=lambda candidate, work: probe_rocm(candidate, work, layout, parts),
        layout=layout,
        notify=notify,
    )
