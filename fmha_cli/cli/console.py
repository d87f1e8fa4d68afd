"""``Console``: messages on stderr, wrapped to its terminal, and whether stdout and stderr are colored. Data never goes
through it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TextIO, TypeVar

from fmha_cli.cli.streams import silence, terminal_width
from fmha_cli.domain.phases import Voice
from fmha_cli.report.escaping import escaped, printable
from fmha_cli.report.fitting import folded

if TYPE_CHECKING:
    from fmha_cli.cli.progress import ProgressLine, Shown

Board = TypeVar("Board", bound="Shown")

_RED, _YELLOW = 31, 33


def _paint(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


class Console:
    """Announcements, warnings and progress on stderr. Control characters in them are escaped."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        quiet: bool = False,
        verbose: bool = False,
        color: bool = False,
        width: int | None = None,
    ):
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.verbose = verbose
        self.color = color
        self.width = width
        self._line: Shown | None = None

    def say(self, text: str) -> None:
        """An announcement; silent with ``-q``."""
        if not self.quiet:
            self._write(escaped(text))

    def detail(self, text: str) -> None:
        """A detail; shown with ``-v`` only."""
        if self.verbose:
            self._write(escaped(text))

    def voice(self, line: ProgressLine) -> Voice:
        """What is said during long work, here and on its line."""
        return Voice(self.say, line.phase)

    def warn(self, text: str) -> None:
        """A warning; shown even with ``-q``."""
        self._write((_paint("warning", _YELLOW) if self.color else "warning") + f": {escaped(text)}")

    def draw(self, drawing: str) -> None:
        """A requested drawing, unchanged; its maker escapes foreign text."""
        with self.room():
            self._put(f"{printable(drawing, getattr(self.stream, 'encoding', None) or 'utf-8')}\n")

    def error(self, rendered: str) -> None:
        """An error as ``FmhaError.render`` gives it, its first word in red."""
        rendered = escaped(rendered)
        if self.color:
            head, colon, rest = rendered.partition(":")
            rendered = _paint(head, _RED) + colon + rest
        self._write(rendered)

    def _write(self, text: str) -> None:
        if self.width is not None:
            text = "\n".join(folded(text, self.width, hang=4))
        with self.room():
            self._put(text + "\n")

    def _put(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:  # nobody can read it, and the data matter more
            self.quiet = True
            silence(self.stream)

    @contextmanager
    def room(self) -> Iterator[None]:
        """Other output to the terminal, during which the line of progress is away."""
        with nullcontext() if self._line is None else self._line.room():
            yield

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressLine]:
        """A line about long work, without ``-q``; with ``-v`` the time of each phase at its end."""
        from fmha_cli.cli.progress import ProgressLine

        with self.board(partial(ProgressLine, title)) as line:
            yield line
        if not self.quiet:
            self.detail(line.summary())

    @contextmanager
    def board(self, make: Callable[[Callable[[str], None], bool, Callable[[], int | None]], Board]) -> Iterator[Board]:
        """What is shown during long work, unless ``-q`` forbids it.

        Args:
            make: called with the stream, whether it is a terminal, and the terminal's width.
        """
        from fmha_cli.cli.progress import PIPED_S, TERMINAL_S, ticking

        terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        shown = make(self._put, terminal, lambda: terminal_width(os.environ, self.stream))
        if self.quiet:
            yield shown
            return
        self._line = shown
        try:
            with ticking(shown, TERMINAL_S if terminal else PIPED_S):
                yield shown
        finally:
            self._line = None
