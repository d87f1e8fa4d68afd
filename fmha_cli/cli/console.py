"""``Console``: messages on stderr, and whether stdout and stderr are colored. Data never goes through it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from fmha_cli.cli.output import silence
from fmha_cli.report.escaping import escaped

if TYPE_CHECKING:
    from rich.progress import Progress

Tick = Callable[[int, int, str], None]
"""progress(done, total, what)."""

_RED, _YELLOW = 31, 33


def colored(stream: TextIO | None, when: str, environ: Mapping[str, str]) -> bool:
    """Whether to color: ``--color``, else ``NO_COLOR``, else a terminal that is not dumb."""
    if when != "auto":
        return when == "always"
    return bool(stream and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty())


def _paint(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


class Console:
    """Announcements, warnings and progress on stderr. Control characters in them are escaped."""

    def __init__(
        self, stream: TextIO | None = None, *, quiet: bool = False, verbose: bool = False, color: bool = False
    ):
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.verbose = verbose
        self.color = color
        self._bar: Progress | None = None

    def say(self, text: str) -> None:
        """An announcement; silent with ``-q``."""
        if not self.quiet:
            self._write(escaped(text))

    def detail(self, text: str) -> None:
        """A detail; shown with ``-v`` only."""
        if self.verbose:
            self._write(escaped(text))

    def warn(self, text: str) -> None:
        """A warning; shown even with ``-q``."""
        self._write((_paint("warning", _YELLOW) if self.color else "warning") + f": {escaped(text)}")

    def error(self, rendered: str) -> None:
        """An error as ``FmhaError.render`` gives it, its first word in red."""
        rendered = escaped(rendered)
        if self.color:
            head, colon, rest = rendered.partition(":")
            rendered = _paint(head, _RED) + colon + rest
        self._write(rendered)

    def _write(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
            return
        try:
            print(text, file=self.stream, flush=True)
        except OSError:  # nobody can read it, and the data matter more
            self.quiet = True
            silence(self.stream)

    @contextmanager
    def progress(self, title: str) -> Iterator[Tick]:
        """A bar for long work, on a terminal and without ``-q`` only."""
        if self.quiet or not self.stream.isatty():
            yield lambda done, total, what: None
            return
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Terminal(file=self.stream, no_color=not self.color)
        what = TextColumn("{task.description}", markup=False)
        columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), what)
        with Progress(*columns, console=console, transient=True) as self._bar:
            task = self._bar.add_task(title, total=None)
            bar = self._bar
            try:
                yield lambda done, total, what: bar.update(
                    task, completed=done, total=total, description=escaped(what) or title
                )
            finally:
                self._bar = None
