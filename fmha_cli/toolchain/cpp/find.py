"""Find a C++ compiler that works, remembering what was proven before."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.installation import CheckState, DoctorCheck, Surroundings
from fmha_cli.toolchain.cache.files import make_private_dir, remove_tree
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cpp.probe import ask_version, is_wrapper, probe
from fmha_cli.toolchain.cpp.toolchain import INSTALL_HELP, ZIG, Candidate, Toolchain, candidates
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify, as_text, log_notice
from fmha_cli.toolchain.proving import Probed, ProbeError, Search

_ABSENT = "there is no g++, clang++ or c++ on PATH, with or without a version in its name, and no ziglang package"


def find_toolchain(
    layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Toolchain:
    """The first compiler that works. Costs a few ``stat`` calls when it was proven before.

    A compiler named by ``FMHA_CXX`` is used or the search ends; one named by ``CXX`` that fails is passed over
    with a notice.

    Raises:
        EnvironmentProblem: none works (B006 lists each with its reason and names what to install), the one named by
            ``FMHA_CXX`` does not (B005), or the cache cannot be written.
    """
    return cpp_search(layout, notify, environ).first(codes=("B005", "B006"), absent=_ABSENT, install=INSTALL_HELP)


def cpp_search(
    layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Search[Candidate, Toolchain]:
    """The search for a C++ compiler."""
    return Search(
        what="C++ compiler",
        variable="FMHA_CXX",
        kind=Toolchain,
        candidates=candidates(environ),
        question=lambda candidate: {"machine": platform.machine(), "probe": 2},
        prove=partial(_prove, notify),
        still_good=lambda candidate, known: not is_wrapper(candidate) or _version(candidate, layout) == known.version,
        layout=layout,
        notify=notify,
    )


def check_compilers(here: Surroundings) -> Iterator[DoctorCheck]:
    """The check of ``fmha doctor``: every compiler that could be used; builds take the first that works."""
    try:
        findings = list(cpp_search(open_root(here.cache_root), as_text(here.notify), here.environ).survey())
    except FmhaError as error:
        yield DoctorCheck.failed("compiler", "c++", error)
        return
    works = False
    for finding in findings:
        subject, state, why = finding.candidate.command, CheckState.OK, None
        if finding.toolchain is not None:
            what = finding.toolchain.version + (" (second choice)" if works else "")
            works = True
        else:
            state, what, why = CheckState.WARNING, "passed over", finding.fault or "it does not work"
        yield DoctorCheck(name="compiler", subject=subject, state=state, what=what, why=why)
    if not works:
        what = "no C++ compiler works here"
        yield DoctorCheck(name="compiler", subject="c++", state=CheckState.FAILED, what=what, help=INSTALL_HELP)


def _prove(notify: Notify, candidate: Candidate, work: Path) -> Probed[Toolchain]:
    if candidate.origin == ZIG:
        text = "the ziglang package compiles its C++ runtime on first use, which takes half a minute or more"
        notify(Notice(NoticeKind.TOOLCHAIN, text))
    return probe(candidate, work)


def _version(candidate: Candidate, layout: CacheLayout) -> str | None:
    """The version that a wrapper reports now; its own file does not change with the compiler behind it."""
    work = layout.new_tmp()
    make_private_dir(work)
    try:
        return ask_version(candidate, work)
    except ProbeError:
        return None
    finally:
        remove_tree(work)
