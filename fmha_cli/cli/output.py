"""``Output``: data to stdout or to the file of ``-o``, in the requested format."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.escaping import escaped, printable
from fmha_cli.report.form import Format


class Output:
    """Prints documents.

    Args:
        form: how documents are printed.
        path: the file of ``-o``, None for stdout.

    Attributes:
        gone: the reader of a pipe has closed it (``| head``). That is no error, and nothing more is printed.
    """

    def __init__(self, form: Format, path: Path | None, *, color: bool) -> None:
        self.form = form
        self.path = path
        self.color = color and path is None
        self.gone = False

    @property
    def streams(self) -> bool:
        """Whether rows are printed as they come: ``--jsonl`` on stdout."""
        return self.form is Format.JSONL and self.path is None

    def check(self) -> None:
        """Refuse a target that cannot be written, before any work.

        Raises:
            EnvironmentProblem: X040.
        """
        if self.path is not None:
            from fmha_cli.report.target import Target

            Target(self.path, "-o").check()
        elif sys.stdout is None:
            raise unwritable(OSError(errno.EBADF, "it is closed"))

    def row(self, row: Mapping[str, Any]) -> None:
        """One row of a stream.

        Raises:
            EnvironmentProblem: X040, stdout cannot be written.
        """
        from fmha_cli.report.formats import jsonl_lines

        self._put(escaped("\n".join(jsonl_lines([row]))))

    def document(self, document: Mapping[str, Any]) -> None:
        """A whole document in the chosen format.

        Raises:
            EnvironmentProblem: X040, the file or stdout cannot be written.
        """
        from fmha_cli.report.formats import render

        self._put(render(document, self.form, color=self.color))

    def text(self, text: str) -> None:
        """Print text that is already data. It is the same in every format; control characters are escaped."""
        self._print(escaped(text))

    def _print(self, text: str) -> None:
        if self.path is None:
            self.gone = not flush_stdout(text) or self.gone
            return
        from fmha_cli.report.target import Target

        try:
            with Target(self.path, "-o").opened() as file:
                file.write(f"{text}\n".encode())
        except BrokenPipeError:
            self.gone = True

    def _put(self, text: str) -> None:
        if text or self.form is not Format.JSONL or self.path is not None:
            self._print(text)


def flush_stdout(line: str | None = None) -> bool:
    """Print a line, if there is one, and flush. False if a reader closed the pipe (``| head``): that is no error.

    After a failure stdout leads nowhere, so that the interpreter does not complain about it at exit.

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


def silence(stream: TextIO) -> None:
    """Let a stream that cannot be written lead nowhere."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, stream.fileno())
    os.close(sink)


def unwritable(fault: OSError) -> EnvironmentProblem:
    """X040 for stdout."""
    from fmha_cli.report.target import refused

    return refused("stdout", "", fault)
