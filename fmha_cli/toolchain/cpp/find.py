"""Find a C++ compiler that works. Earlier proofs are remembered.

A compiler works if it builds a tiny library that a child process can load and call. The output of one that builds for
another machine than this one is inspected, never loaded.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.installation import CheckState, DoctorCheck, Surroundings
from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.asking import ProgramAnswer, ask
from fmha_cli.toolchain.cache.files import make_private_dir, remove_tree
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import stamps
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cache.store import BuildError
from fmha_cli.toolchain.cpp.compile import compile_library, first_error_line
from fmha_cli.toolchain.cpp.headers import files_digest, listing_source, parse_dependencies
from fmha_cli.toolchain.cpp.toolchain import (
    INSTALL_HELP,
    ZIG,
    CompilerCandidate,
    Toolchain,
    ToolchainKind,
    candidates,
    find_named,
    on_path,
    zig_command,
)
from fmha_cli.toolchain.elf import machine_of_file
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify, as_text, log_notice
from fmha_cli.toolchain.proving import Probed, ProbeError, Search

_ABSENT = "there is no g++, clang++ or c++ on PATH, with or without a version in its name, and no ziglang package"

_SOURCE = '#include <cmath>\nextern "C" double fmha_probe(double x) { return std::floor(x) + 1; }\n'
_FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC")
_LOAD = (
    "import ctypes, sys\n"
    "probe = ctypes.CDLL(sys.argv[1]).fmha_probe\n"
    "probe.restype, probe.argtypes = ctypes.c_double, [ctypes.c_double]\n"
    "sys.exit(0 if probe(41.5) == 42.0 else 1)\n"
)
_BUILD_S, _ZIG_BUILD_S = 60.0, 900.0
"""Time limits: zig compiles its C++ runtime on first use, which takes half a minute or more."""

_WRAPPERS = ("ccache", "sccache", "distcc", "icecc")


def find_toolchain(
    layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Toolchain:
    """The first compiler that works. Costs a few ``stat`` calls when it was proven before.

    If a compiler named by ``FMHA_CXX`` fails, the search ends. If one named by ``CXX`` fails, it is skipped with a
    notice.

    Raises:
        EnvironmentProblem: none works (B006 lists each with its reason and names what to install), the one named by
            ``FMHA_CXX`` does not (B005), or the cache cannot be written.
    """
    return cpp_search(layout, notify, environ).first(codes=("B005", "B006"), absent=_ABSENT, install=INSTALL_HELP)


def cpp_search(
    layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Search[CompilerCandidate, Toolchain]:
    """The search for a C++ compiler."""
    return Search(
        what="C++ compiler",
        variable="FMHA_CXX",
        kind=Toolchain,
        candidates=candidates(environ),
        question=lambda candidate: {"machine": platform.machine(), "probe": 2},
        prove=partial(prove, notify, _load),
        still_good=lambda candidate, known: unchanged(candidate, known, layout),
        layout=layout,
        notify=notify,
    )


def check_compilers(here: Surroundings) -> Iterator[DoctorCheck]:
    """The check of ``fmha doctor``: every compiler that could be used; builds take the first that works."""
    try:
        search = cpp_search(open_root(here.cache_root), as_text(here.notify), here.environ)
        findings = [search.examine(candidate) for candidate in search.candidates]
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


def unchanged(candidate: CompilerCandidate, known: Toolchain, layout: CacheLayout) -> bool:
    """Whether a proven compiler is still the same, where the stamps of its files cannot show it."""
    return not _is_wrapper(candidate) or _version(candidate, layout) == known.version


def _version(candidate: CompilerCandidate, layout: CacheLayout) -> str | None:
    """The version that a wrapper reports now; its own file does not change with the compiler behind it."""
    work = layout.new_tmp()
    make_private_dir(work)
    try:
        return _ask_version(candidate, work)
    except ProbeError:
        return None
    finally:
        remove_tree(work)


def _load(library: Path, work: Path) -> None:
    if not ask((sys.executable, "-I", "-S", "-c", _LOAD, str(library)), work).ok:
        raise ProbeError("builds a shared library that this Python cannot load")


def prove(
    notify: Notify, check: Callable[[Path, Path], None], candidate: CompilerCandidate, work: Path
) -> Probed[Toolchain]:
    """Prove one compiler in an empty directory of the cache.

    Args:
        check: looks at the library that it built, with the directory; raises ``ProbeError`` if it is of no use.

    Raises:
        ProbeError: it is missing, fails, or builds unusable code.
        OSError: the directory cannot be written.
    """
    if candidate.origin == ZIG:
        text = "the ziglang package compiles its C++ runtime on first use, which takes half a minute or more"
        notify(Notice(NoticeKind.TOOLCHAIN, text))
    programs = stamps(_watched_programs(candidate))
    version = _ask_version(candidate, work)
    headers = [str(path) for path in _headers(candidate, work)]
    before = stamps([*programs, *_helpers(candidate, work), *headers]) | programs
    toolchain = Toolchain(
        kind=_kind(candidate, version),
        version=version,
        argv0=candidate.argv0,
        headers_digest=files_digest(Path(path) for path in headers),
    )
    out = work / "probe.so"
    limit = _ZIG_BUILD_S if candidate.origin == ZIG else _BUILD_S
    try:
        compile_library(toolchain, _SOURCE, _FLAGS, out, limit, work / "probe.log")
    except BuildError as fault:
        raise ProbeError(f"cannot build a shared library: {fault.summary}") from fault
    check(out, work)
    return Probed(toolchain, before)


def _ask_version(candidate: CompilerCandidate, work: Path) -> str:
    """The first line of ``--version``, with the target machine if the compiler reports it.

    Raises:
        ProbeError: it cannot be started or fails.
    """
    said = ask((*candidate.argv0, "--version"), work)
    if not said.ok or not said.text.strip():
        raise ProbeError("does not answer --version")
    machine = _text(ask((*candidate.argv0, "-dumpmachine"), work))
    first = said.text.strip().splitlines()[0].strip()
    return f"{first} [{machine}]" if machine else first


def _watched_programs(candidate: CompilerCandidate) -> list[str]:
    """The files whose stamps show whether the compiler is still the same."""
    words = [shutil.which(word) for word in candidate.argv0[1:]]
    return [candidate.argv0[0], *(word for word in words if word)]


def _is_wrapper(candidate: CompilerCandidate) -> bool:
    """Whether the program only starts another one, which may change without the program's file changing."""
    real = os.path.realpath(candidate.argv0[0])
    if os.path.basename(real).startswith(_WRAPPERS) or (len(candidate.argv0) > 1 and candidate.origin != ZIG):
        return True
    try:
        with open(real, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def _helpers(candidate: CompilerCandidate, work: Path) -> list[str]:
    """The compiler proper behind a driver, where there is one."""
    text = _text(ask((*candidate.argv0, "-print-prog-name=cc1plus"), work))
    return [text] if os.path.isabs(text) else []


def _headers(candidate: CompilerCandidate, work: Path) -> list[Path]:
    """Every header that kernels may include, as the compiler finds them.

    Raises:
        ProbeError: the standard headers are missing.
    """
    source = work / "headers.cpp"
    source.write_text(listing_source())
    rule = ask((*candidate.argv0, "-std=c++17", "-M", source.name), work)
    if not rule.ok:
        raise ProbeError(f"lacks C++ headers: {first_error_line(rule.text) or 'it fails to preprocess them'}")
    found = [Path(os.path.normpath(work / name)) for name in parse_dependencies(rule.text)]
    return [path for path in found if path != source]


def _kind(candidate: CompilerCandidate, version: str) -> ToolchainKind:
    if candidate.origin == ZIG or os.path.basename(candidate.argv0[0]) == "zig":
        return ToolchainKind.ZIG
    words = version.lower()
    if "clang" in words:
        return ToolchainKind.CLANG
    name = os.path.basename(candidate.argv0[0])
    is_gcc = any(mark in words for mark in ("g++", "gcc", "free software foundation")) or name.startswith("g++")
    return ToolchainKind.GCC if is_gcc else ToolchainKind.OTHER


def _text(answer: ProgramAnswer) -> str:
    return answer.text.strip() if answer.ok else ""


ANY = "any"
"""The machine of code that is compiled for the building machine."""


def toolchain_for(
    machine: str, layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Toolchain:
    """The first compiler that works for a machine: for this one :func:`find_toolchain`'s, else a cross compiler.

    Args:
        machine: ``x86_64``, ``aarch64``, or ``any`` for this one.

    Raises:
        EnvironmentProblem: none works (B006 lists each with its reason and names what to install), the one that the
            variable names does not (B005), or the cache cannot be written.
    """
    if machine in (ANY, machine_here()):
        return find_toolchain(layout, notify, environ)
    absent = f"there is no {machine}-linux-gnu-g++, clang++ or ziglang package here, and {variable(machine)} is not set"
    install = f"install {_package(machine)} with the system's package manager, or `pip install ziglang`"
    search = cross_search(machine, layout, notify, environ)
    return search.first(codes=("B005", "B006"), absent=absent, install=install)


def variable(machine: str) -> str:
    """The variable that names the compiler for a machine."""
    return f"FMHA_CXX_{machine.upper()}"


def cross_search(
    machine: str, layout: CacheLayout, notify: Notify = log_notice, environ: Mapping[str, str] | None = None
) -> Search[CompilerCandidate, Toolchain]:
    """The search for a compiler that builds for a machine."""
    return Search(
        what=f"C++ compiler for {machine}",
        variable=variable(machine),
        kind=Toolchain,
        candidates=cross_candidates(machine, environ),
        question=lambda candidate: {"machine": machine, "probe": 1},
        prove=partial(prove, notify, partial(_check, machine)),
        still_good=lambda candidate, known: unchanged(candidate, known, layout),
        layout=layout,
        notify=notify,
    )


def cross_candidates(machine: str, environ: Mapping[str, str] | None = None) -> Iterator[CompilerCandidate]:
    """Compilers in order of preference: the variable's, GCC for the machine, clang++ (which needs that GCC's libraries),
    the ``ziglang`` package (which has its own)."""
    env = os.environ if environ is None else environ
    search, triple = env.get("PATH", os.defpath), f"{machine}-linux-gnu"
    yield from find_named(variable(machine), env, wished=True)
    for path in on_path(search, f"{triple}-g++"):
        yield CompilerCandidate((path,), "PATH")
    for path in on_path(search, "clang++"):
        yield CompilerCandidate((path, f"--target={triple}"), "PATH")
    if zig := zig_command():
        yield CompilerCandidate((*zig, "-target", triple), ZIG)


def _package(machine: str) -> str:
    debian = {"x86_64": "x86-64"}.get(machine, machine)
    return f"g++-{debian}-linux-gnu"


def _check(machine: str, library: Path, work: Path) -> None:
    """Whether a library is for the machine.

    Raises:
        ProbeError: it is not.
    """
    if machine_of_file(library) != machine:
        raise ProbeError(f"builds no shared library for {machine}")
