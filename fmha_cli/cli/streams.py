"""stdout and stderr: the width of the terminal behind a stream, whether it shows colours, and streams that cannot be written.

One rule for widths holds for data, messages and errors. ``COLUMNS`` counts first, as for other programs. Without it a stream
that leads to no terminal has no width: nothing that goes into a pipe or a file is shortened, left out or wrapped, so one fact
stays on one line.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.escaping import printable

UNKNOWN = 80
"""Columns of a terminal that does not tell."""

_LONGEST = 9
"""Digits of ``COLUMNS``; a longer text is not a width, and Python refuses to read one of arbitrary length."""


def terminal_width(environ: Mapping[str, str], stream: TextIO | None) -> int | None:
    """Columns of the terminal behind a stream; None if there is none."""
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdecimal() and len(columns) <= _LONGEST and int(columns):
        return int(columns)
    try:
        if stream is None or not stream.isatty():
            return None
        return os.get_terminal_size(stream.fileno()).columns or UNKNOWN
    except (OSError, ValueError):
        return UNKNOWN


def colored(stream: TextIO | None, when: str, environ: Mapping[str, str]) -> bool:
    """Whether to color: ``--color``, else ``NO_COLOR``, else a terminal that is not dumb."""
    if when != "auto":
        return when == "always"
    return bool(stream and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty())


def flush_stdout(line: str | None = None) -> bool:
    """Print a line, if there is one, and flush. False if a reader closed the pipe (``| head``): that is not an error.

    After a failure stdout leads nowhere, so the interpreter does not complain about it at exit.

    Raises:
        EnvironmentProblem: X040, stdout cannot be written.
    """
    if sys.stdout is None:
        if line is None:
            return True
        raise unwritable(OSError(errno.EBADF, "it is closed"))
    try:
        if line is not None:
            print(printable(line, sys.stdout.encoding or "utf-8"))
        sys.stdout.flush()
        return True
    except OSError as fault:
        silence(sys.stdout)
        if isinstance(fault, BrokenPipeError):
            return False
        raise unwritable(fault) from fault


def arrives(stream: TextIO | None) -> bool:
    """Whether what was written to a stream so far can be delivered; nothing was if it is closed."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        return False
    return True


def silence(stream: TextIO | None) -> None:
    """Let a stream that cannot be written lead nowhere."""
    if stream is None:
        return
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, stream.fileno())
    os.close(sink)


def unwritable(fault: OSError) -> EnvironmentProblem:
    """X040 for stdout."""
    from fmha_cli.report.target import refused

    return refused("stdout", "", fault)
