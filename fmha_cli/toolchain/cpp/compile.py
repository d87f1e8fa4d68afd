"""Compile one source text into one shared library, with a full log and a verdict in one line."""

from __future__ import annotations

import errno
import os
import re
import shlex
import threading
from collections.abc import Sequence
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.quantities import size
from fmha_cli.system.processes import KILLED
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.layout import SOURCE
from fmha_cli.toolchain.cache.store import BuildError, BuildProduct
from fmha_cli.toolchain.cpp.toolchain import Compiler
from fmha_cli.toolchain.process import ProgramEnd, TimeLimits, compiler_environment, run_group

_ERROR_LINE = re.compile(
    r"\berror\b\s*:|undefined reference to|undefined symbol|multiple definition of|cannot find -l|ld(\.\w+)?: cannot"
)
_NO_ROOM = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG))
_LINE_LIMIT = 400


def compile_library(
    toolchain: Compiler,
    source: str,
    flags: Sequence[str],
    out: Path,
    timeout: float,
    log: Path,
    cancel: threading.Event | None = None,
) -> BuildProduct:
    """Compile ``source`` into ``out``, with a log of the command line, all output and the resources used.

    The compiler runs in the directory of ``out`` and sees relative names only, so messages and debug information do not
    depend on that directory. Flags that name libraries or address the linker follow the source, all others precede it;
    each group keeps its order.

    Args:
        flags: all flags, including the ones that make the output a shared library.
        timeout: seconds of processor time after which the compiler and all its children are killed (``TimeLimits.of_compile``).
        log: must not exist.
        cancel: when set, the compiler is killed.

    Raises:
        BuildError: the compiler fails, runs out of time, or writes nothing.
        EnvironmentProblem: the compiler cannot be started, or the disk is full or read-only.
        Interrupted: ``cancel`` was set.
    """
    folder = out.parent
    linked = [flag for flag in flags if flag.startswith(("-l", "-Wl,"))]
    others = [flag for flag in flags if flag not in linked]
    command = (*toolchain.argv0, *others, SOURCE, *linked, "-o", out.name)
    scratch, limits = folder / "scratch", TimeLimits.of_compile(timeout)
    with as_environment_problem("preparing a compile"):
        scratch.mkdir(exist_ok=True)
        (folder / SOURCE).write_bytes(source.encode("utf-8"))
        with log.open("xb", buffering=0) as file:
            file.write(f"$ {shlex.join(command)}\n# {toolchain.version}\n".encode())
            environment = compiler_environment(scratch)
            try:
                ended = run_group(command, cwd=folder, env=environment, output=file, limits=limits, cancel=cancel)
            except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
                raise EnvironmentProblem(
                    f"the compiler cannot be started: {error.strerror}", code="B004", where=toolchain.argv0[0]
                ) from error
            file.write(f"# {_resources(ended)}\n".encode())
    why = _failure(ended, limits)
    if not why and not out.is_file():
        why = "the compiler exited with status 0 but wrote no library"
    said = log.read_text("utf-8", errors="replace") if why else ""
    summary = first_error_line(said) or why
    if any(words in line for line in said.splitlines() if not line.startswith("$ ") for words in _NO_ROOM):
        # The compiler complained about the disk rather than about the source.
        raise EnvironmentProblem(
            f"compiling failed for lack of space: {summary}", code="B002", where=str(folder), help="free some space"
        )
    if why:
        raise BuildError(summary, why=why, log=log)
    return BuildProduct(out, log, ended.seconds, ended.peak_bytes)


def first_error_line(text: str) -> str | None:
    """The first line of a compiler's output that states an error, at most 400 characters; None without one."""
    for line in text.splitlines():
        if not line.startswith(("$ ", "# ")) and _ERROR_LINE.search(line):
            return line.strip()[:_LINE_LIMIT]
    return None


def _failure(ended: ProgramEnd, limits: TimeLimits) -> str:
    """How the compiler failed, in words; empty when it did not."""
    if ended.over is not None:
        return f"the compiler was killed after {limits.text(ended.over)}"
    if ended.returncode == KILLED:
        return "the compiler was killed (SIGKILL), which usually means that memory ran out"
    if ended.returncode < 0:
        return f"the compiler was killed by signal {-ended.returncode}"
    return f"the compiler exited with status {ended.returncode}" if ended.returncode else ""


def _resources(ended: ProgramEnd) -> str:
    """One line about the run, for the log."""
    status = f"killed after {ended.seconds:.3f} s" if ended.timed_out else f"exit status {ended.returncode}"
    cpu = "unknown" if ended.cpu_seconds is None else f"{ended.cpu_seconds:.3f} s"
    peak = "unknown" if ended.peak_bytes is None else size(ended.peak_bytes)
    return f"{status}; wall {ended.seconds:.3f} s; cpu {cpu}; peak memory {peak}"
