"""``Output``: data to stdout or, atomically, to a file, in the requested format."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.form import Format


class Output:
    """Prints documents.

    Args:
        form: how documents are printed.
        path: the file of ``-o``, None for stdout.
    """

    def __init__(self, form: Format, path: Path | None, *, color: bool) -> None:
        self.form = form
        self.path = path
        self.color = color and path is None

    @property
    def streams(self) -> bool:
        """Whether rows are printed as they come: ``--jsonl`` on stdout."""
        return self.form is Format.JSONL and self.path is None

    def row(self, row: Mapping[str, Any]) -> None:
        """One row of a stream."""
        from fmha_cli.report.formats import jsonl_lines

        self._put("\n".join(jsonl_lines([row])))

    def document(self, document: Mapping[str, Any]) -> None:
        """A whole document in the chosen format.

        Raises:
            EnvironmentProblem: the file cannot be written.
        """
        from fmha_cli.report.formats import render

        self._put(render(document, self.form, color=self.color))

    def text(self, text: str) -> None:
        """Print text that is already data. It is the same in every format."""
        if self.path is not None:
            write_atomically(self.path, text + "\n")
        else:
            flush_stdout(text)

    def _put(self, text: str) -> None:
        if text or self.form is not Format.JSONL or self.path is not None:
            self.text(text)


def flush_stdout(line: str | None = None) -> None:
    """Print a line, if there is one, and flush. A reader that closed the pipe (``| head``) is not an error, and the
    interpreter does not complain about it at exit."""
    try:
        if line is not None:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)


def write_atomically(path: Path, text: str) -> None:
    """The file appears whole or not at all.

    Raises:
        EnvironmentProblem: E010, the folder cannot be written to.
    """
    from fmha_cli.toolchain.cache.files import replacing

    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as fault:
        raise EnvironmentProblem(f"-o {path}: cannot be written", code="E010", where="-o", why=str(fault)) from fault
