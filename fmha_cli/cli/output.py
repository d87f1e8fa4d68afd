"""``Output``: data to stdout or to the file of ``-o``, in the requested format."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fmha_cli.cli.streams import flush_stdout, unwritable
from fmha_cli.domain.quantities import size
from fmha_cli.report.escaping import escaped
from fmha_cli.report.form import Format
from fmha_cli.report.lines import counted
from fmha_cli.report.shape import TableShape
from fmha_cli.report.target import Target

if TYPE_CHECKING:
    from fmha_cli.report.table import Table

T = TypeVar("T")

SHAPED = frozenset(Format) - {Format.JSON, Format.JSONL}
"""The formats to which ``--columns`` applies; ``--sort``, ``--limit`` and widths are for tables alone."""


class Output:
    """Prints documents.

    Args:
        form: how documents are printed.
        path: the file of ``-o``, None for stdout.
        shape: how tables are shown; None for all of them, however wide.
        room: keeps the line of progress away while something is printed (``Console.room``).
        say: takes a line about a file that was written (``Console.say``).

    Attributes:
        gone: the reader of a pipe has closed it (``| head``). That is not an error, and nothing more is printed.
    """

    def __init__(
        self,
        form: Format,
        path: Path | None,
        *,
        color: bool,
        shape: TableShape | None = None,
        room: Callable[[], AbstractContextManager[None]] = nullcontext,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.form = form
        self.path = path
        self.shape = shape
        self.color = color and path is None
        self.gone = False
        self._room, self._say = room, say

    @property
    def streams(self) -> bool:
        """Whether rows are printed as they come: ``--jsonl`` on stdout."""
        return self.form is Format.JSONL and self.path is None

    @property
    def brief(self) -> bool:
        """Whether a table goes to a terminal, and nobody asked for certain rows or columns."""
        return self.shape is not None and self.shape.width is not None and self.shape.whole

    @property
    def width(self) -> int | None:
        """The columns that a line of text may have; None for any number."""
        return None if self.shape is None else self.shape.width

    def check(self, documents: Sequence[str] = ()) -> None:
        """Refuse a target that cannot be written, and columns that a command's tables do not have, before any work.

        Args:
            documents: the names of the documents that the command prints; none leaves the columns unchecked.

        Raises:
            EnvironmentProblem: X040.
            UsageError: E017, no such column.
        """
        if documents and self.shape is not None and (self.shape.columns or self.shape.sort):
            from fmha_cli.report.formats import check_shape  # tables: 8 ms, which one number or text does without

            check_shape(self.shape, documents, tables=self.form is not Format.CSV)
        if self.path is not None:
            Target(self.path, "-o").check()
        elif sys.stdout is None:
            raise unwritable(OSError(errno.EBADF, "it is closed"))

    def row(self, row: object) -> None:
        """One row of a stream.

        Raises:
            EnvironmentProblem: X040, stdout cannot be written.
        """
        from fmha_cli.report.formats import jsonl_lines

        self._put(escaped("\n".join(jsonl_lines([row]))))

    def document(self, document: Any) -> None:
        """A whole document in the chosen format.

        Raises:
            EnvironmentProblem: X040, the file or stdout cannot be written.
        """
        from fmha_cli.report.formats import number_of_rows, render

        text = render(document, self.form, color=self.color, shape=self.shape)
        if text or self.path is not None or self.shape is None or self.shape.summed:
            self._put(text)
        if self.path is not None and not self.gone:
            number = number_of_rows(document)
            rows = "" if number is None else f"{counted(number, 'row')}, "
            self._say(f"{self.path}: {rows}{size(len(text.encode()) + 1)}")

    def table(self, document: T, view: Callable[[T], Table]) -> None:
        """A document as another table than its own; only for ``Format.TABLE``.

        Raises:
            EnvironmentProblem: X040, the file or stdout cannot be written.
            UsageError: E017, no such column.
        """
        from fmha_cli.report.drawing import plain
        from fmha_cli.report.shaping import shaped

        table = view(document)
        if self.shape is not None:
            table = shaped(table, self.shape)
            table = table if self.shape.summed else replace(table, summary="")
        self.print(plain(table, self.width))

    def text(self, text: str) -> None:
        """Print text that is already data. It is the same in every format; control characters are escaped."""
        self.print(escaped(text))

    def print(self, text: str) -> None:
        """Print text as it is; a drawing's maker escapes foreign text."""
        if self.path is None:
            with self._room():
                self.gone = not flush_stdout(text) or self.gone
            return

        try:
            with Target(self.path, "-o").opened() as file:
                file.write(f"{text}\n".encode())
        except BrokenPipeError:
            self.gone = True

    def _put(self, text: str) -> None:
        if text or self.form is not Format.JSONL or self.path is not None:
            self.print(text)
