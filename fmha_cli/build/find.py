"""Find a compiler that works, remembering what was proven before."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.files import as_environment_problem, make_private_dir, remove_tree
from fmha_cli.build.layout import CacheLayout
from fmha_cli.build.lock import WaitingLock
from fmha_cli.build.memo import recall, remember
from fmha_cli.build.notice import Notice, NoticeKind, Notify, log_notice
from fmha_cli.build.probe import Probed, ProbeError, ask_version, is_wrapper, probe
from fmha_cli.build.toolchain import INSTALL_HELP, Candidate, Toolchain, ToolchainKind, candidates
from fmha_cli.encode import digest_of
from fmha_cli.errors import EnvironmentProblem


@dataclass(frozen=True)
class Finding:
    """What became of one candidate: a toolchain, or the reason why not."""

    candidate: Candidate
    toolchain: Toolchain | None
    fault: str | None


def find_toolchain(
    layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Toolchain:
    """The first compiler that works. Costs a few ``stat`` calls when it was proven before.

    A compiler named by ``FMHA_CXX`` is used or the search ends; one named by ``CXX`` that fails is passed over
    with a notice.

    Raises:
        EnvironmentProblem: none works (the message lists each with its reason and names what to install), or
            the cache cannot be written.
    """
    faults: list[str] = []
    for candidate in candidates(environ):
        finding = examine(candidate, layout, notify)
        if finding.toolchain is not None:
            return finding.toolchain
        fault = f"{candidate.command} (from {candidate.origin}): {finding.fault}"
        if candidate.wished:
            raise EnvironmentProblem(
                f"the compiler of FMHA_CXX does not work: {fault}",
                code="B005",
                where="FMHA_CXX",
                help="name a C++ compiler that works, or unset FMHA_CXX to let fmha choose",
            )
        notify(Notice(NoticeKind.TOOLCHAIN, f"passing over the compiler {fault}"))
        faults.append(fault)
    tried = (
        "; ".join(faults)
        or "there is no g++, clang++ or c++ on PATH, with or without a version in its name, and no ziglang package"
    )
    raise EnvironmentProblem("no C++ compiler works here", code="B006", why=tried, help=INSTALL_HELP)


def survey(layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Every candidate with what became of it, for ``fmha doctor``.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    return [examine(candidate, layout, notify) for candidate in candidates(environ)]


def examine(candidate: Candidate, layout: CacheLayout, notify: Notify = log_notice) -> Finding:
    """Recall or prove one candidate. At most one process proves a compiler at a time.

    Raises:
        EnvironmentProblem: the cache cannot be written.
    """
    if not candidate.found:
        return Finding(candidate, None, "there is no such program")
    question = {
        "argv0": list(candidate.argv0),
        "machine": platform.machine(),
        "path": os.environ.get("PATH", "") if len(candidate.argv0) > 1 else "",
        "probe": 1,
    }
    name = f"toolchain-{digest_of(question)[:16]}"
    memo = layout.toolchains / f"{name}.json"
    with as_environment_problem("probing the compiler"):
        known = _recall(memo, question, candidate, layout)
        if known is not None:
            return Finding(candidate, known, None)
        lock = WaitingLock(layout.lock(name), f"the probe of {candidate.command}", notify)
        with lock.hold(lambda: not memo.exists()):
            known = _recall(memo, question, candidate, layout)
            if known is not None:
                return Finding(candidate, known, None)
            return _prove(candidate, layout, notify, memo, question)


def _prove(candidate: Candidate, layout: CacheLayout, notify: Notify, memo: Path, question: object) -> Finding:
    if candidate.is_zig:
        text = "the ziglang package compiles its C++ runtime on first use, which takes half a minute or more"
        notify(Notice(NoticeKind.TOOLCHAIN, text))
    work = layout.new_tmp()
    make_private_dir(work)
    try:
        probed = probe(candidate, work)
    except ProbeError as fault:
        return Finding(candidate, None, str(fault))
    finally:
        remove_tree(work)
    try:
        remember(memo, question, _encode(probed), probed.watched)
    except OSError as error:
        text = f"the compiler will be probed again next time ({error.strerror})"
        notify(Notice(NoticeKind.NOT_SAVED, text))
    return Finding(candidate, probed.toolchain, None)


def _recall(memo: Path, question: object, candidate: Candidate, layout: CacheLayout) -> Toolchain | None:
    """The remembered toolchain, or None when it must be proven (again)."""
    answer = recall(memo, question)
    if not isinstance(answer, dict):
        return None
    try:
        known = Toolchain(
            path=Path(answer["path"]),
            kind=ToolchainKind(answer["kind"]),
            version=str(answer["version"]),
            argv0=tuple(answer["argv0"]),
            headers_digest=str(answer["headers_digest"]),
        )
    except (KeyError, ValueError, TypeError):
        return None
    return known if not is_wrapper(candidate) or _says(candidate, layout) == known.version else None


def _says(candidate: Candidate, layout: CacheLayout) -> str | None:
    """The version that a wrapper reports now; its own file does not change with the compiler behind it."""
    work = layout.new_tmp()
    make_private_dir(work)
    try:
        return ask_version(candidate, work)
    except ProbeError:
        return None
    finally:
        remove_tree(work)


def _encode(probed: Probed) -> dict[str, object]:
    toolchain = probed.toolchain
    return {
        "argv0": list(toolchain.argv0),
        "headers_digest": toolchain.headers_digest,
        "kind": toolchain.kind.value,
        "path": str(toolchain.path),
        "version": toolchain.version,
    }
