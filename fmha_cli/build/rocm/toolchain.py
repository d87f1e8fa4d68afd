"""Find a HIP compiler that works, remembering what was proven before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.files import as_environment_problem, make_private_dir, remove_tree
from fmha_cli.build.layout import CacheLayout
from fmha_cli.build.lock import WaitingLock
from fmha_cli.build.memo import recall, remember
from fmha_cli.build.notice import Notice, NoticeKind, Notify, log_notice
from fmha_cli.build.rocm.asking import RocmProbeError
from fmha_cli.build.rocm.candidates import INSTALL_HELP, RocmCandidate, RocmKind, RocmToolchain, candidates
from fmha_cli.build.rocm.flags import PROBED
from fmha_cli.build.rocm.probe import PROBE_SOURCE, RocmProbed, probe_rocm
from fmha_cli.build.rocm.root import STUBS, RocmParts, RocmSupply, isa_versions
from fmha_cli.build.root import open_root
from fmha_cli.encode import digest_of
from fmha_cli.errors import EnvironmentProblem

__all__ = ["RocmFinding", "RocmKind", "RocmParts", "RocmSupply", "RocmToolchain", "find_rocm", "survey_rocm"]

_PROBE = 5
"""Raised when the probe's code changes, so that what an older one found is not believed."""


@dataclass(frozen=True)
class RocmFinding:
    """What became of one candidate: a toolchain, or why not and what would help."""

    candidate: RocmCandidate
    toolchain: RocmToolchain | None
    fault: str | None
    help: str | None = None


def find_rocm(
    cache_root: Path,
    *,
    parts: RocmSupply,
    notify: Notify = log_notice,
    environ: Mapping[str, str] | None = None,
) -> RocmToolchain:
    """The first HIP compiler that works. Costs some hundred ``stat`` calls when it was proven before.

    Args:
        parts: gives the parts of ROCm that a clang of the system lacks (``sources.rocm_parts``); asked only when
            such a compiler is proven.

    Raises:
        EnvironmentProblem: none works (B031 lists each with its reason and names what to install), the one named
            by FMHA_HIPCC does not (B030), the parts cannot be had, or the cache cannot be written.
    """
    layout = open_root(cache_root)
    faults: list[str] = []
    helps: list[str] = []
    for candidate in candidates(environ):
        finding = examine_rocm(candidate, layout, parts, notify)
        if finding.toolchain is not None:
            return finding.toolchain
        fault = f"{candidate.command} (from {candidate.origin}): {finding.fault}"
        if candidate.wished:
            raise EnvironmentProblem(
                f"the compiler of FMHA_HIPCC does not work: {fault}",
                code="B030",
                where="FMHA_HIPCC",
                help=finding.help or "name a HIP compiler that works, or unset FMHA_HIPCC to let fmha choose",
            )
        notify(Notice(NoticeKind.TOOLCHAIN, f"passing over the HIP compiler {fault}"))
        faults.append(fault)
        helps += [finding.help] if finding.help else []
    tried = "; ".join(faults) or "there is no ROCm, and no clang++ of version 19 or newer on PATH"
    raise EnvironmentProblem(
        "no compiler for AMD GPUs works here", code="B031", why=tried, help=helps[0] if helps else INSTALL_HELP
    )


def survey_rocm(
    cache_root: Path,
    *,
    parts: RocmSupply,
    notify: Notify = log_notice,
    environ: Mapping[str, str] | None = None,
) -> list[RocmFinding]:
    """Every candidate up to the first that works, for ``fmha doctor``.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    layout = open_root(cache_root)
    found: list[RocmFinding] = []
    for candidate in candidates(environ):
        try:
            found.append(examine_rocm(candidate, layout, parts, notify))
        except EnvironmentProblem as error:
            found.append(RocmFinding(candidate, None, f"{error.what}: {error.why}", error.help))
        if found[-1].toolchain is not None:
            break
    return found


def examine_rocm(
    candidate: RocmCandidate, layout: CacheLayout, parts: RocmSupply, notify: Notify = log_notice
) -> RocmFinding:
    """Recall or prove one candidate. At most one process proves a compiler at a time.

    Raises:
        EnvironmentProblem: the parts cannot be had, or the cache cannot be written.
    """
    if not candidate.found:
        return RocmFinding(candidate, None, "there is no such program")
    question = {
        "argv0": list(candidate.argv0),
        "cache": str(layout.root),
        "isa": isa_versions(),
        "kind": candidate.kind.value,
        "parts": parts.identity if candidate.kind is RocmKind.CLANG else "",
        "path": os.environ.get("PATH", "") if len(candidate.argv0) > 1 else "",
        "probe": [_PROBE, PROBE_SOURCE, [flag.text for flag in PROBED], dict(STUBS)],
        "rocm": str(candidate.rocm),
    }
    name = f"hip-{digest_of(question)[:16]}"
    memo = layout.toolchains / f"{name}.json"
    with as_environment_problem("probing the HIP compiler"):
        known = _recall(memo, question)
        if known is not None:
            return RocmFinding(candidate, known, None)
        lock = WaitingLock(layout.lock(name), f"the probe of {candidate.command}", notify)
        with lock.hold(lambda: not memo.exists()):
            known = _recall(memo, question)
            if known is not None:
                return RocmFinding(candidate, known, None)
            return _prove(candidate, layout, parts, notify, memo, question)


def _prove(
    candidate: RocmCandidate,
    layout: CacheLayout,
    parts: RocmSupply,
    notify: Notify,
    memo: Path,
    question: object,
) -> RocmFinding:
    work = layout.new_tmp()
    make_private_dir(work)
    try:
        probed = probe_rocm(candidate, work, layout, parts)
    except RocmProbeError as fault:
        return RocmFinding(candidate, None, str(fault), fault.help)
    finally:
        remove_tree(work)
    try:
        remember(memo, question, _encode(probed), probed.watched)
    except OSError as error:
        text = f"the HIP compiler will be probed again next time ({error.strerror})"
        notify(Notice(NoticeKind.NOT_SAVED, text))
    return RocmFinding(candidate, probed.toolchain, None)


def _recall(memo: Path, question: object) -> RocmToolchain | None:
    """The remembered toolchain, or None when it must be proven (again)."""
    answer = recall(memo, question)
    if not isinstance(answer, dict):
        return None
    try:
        tools = {name: Path(answer[name]) if answer[name] else None for name in ("readelf", "objdump", "bundler")}
        return RocmToolchain(
            argv0=tuple(answer["argv0"]),
            version=str(answer["version"]),
            kind=RocmKind(answer["kind"]),
            rocm_path=Path(answer["rocm_path"]),
            archs=tuple(answer["archs"]),
            hip_version=str(answer["hip_version"]),
            headers_digest=str(answer["headers_digest"]),
            options=tuple(answer["options"]),
            **tools,
        )
    except (KeyError, ValueError, TypeError):
        return None


def _encode(probed: RocmProbed) -> dict[str, object]:
    found = probed.toolchain
    tools = {name: str(getattr(found, name) or "") for name in ("readelf", "objdump", "bundler")}
    return {
        "archs": list(found.archs),
        "argv0": list(found.argv0),
        "headers_digest": found.headers_digest,
        "hip_version": found.hip_version,
        "kind": found.kind.value,
        "options": list(found.options),
        "rocm_path": str(found.rocm_path),
        "version": found.version,
        **tools,
    }
