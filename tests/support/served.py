"""Worker processes that run command lines of ``fmha`` one after the other, so only the first one pays for the start:
``Served`` captures both streams, ``Terminal`` gives them a terminal and models the screen."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.__main__ import YOUNG_OBJECTS
from tests.support.models.screen import Screen
from tests.support.paths import importable

_END = b"\x1b]end\x07"
"""What the process writes to its terminal after each command line; a terminal shows nothing of it."""


@dataclass(frozen=True)
class Done:
    """The result of one command line; ``code`` is None if it was killed after too long."""

    argv: tuple[str, ...]
    code: int | None
    out: str
    err: str

    def fault(self) -> str | None:
        """What is wrong with it, whatever it was asked; None if nothing is."""
        if self.code is None:
            return "takes too long"
        if self.code not in (0, 1, 2, 3, 4, 5, 6):
            return f"exit code {self.code}"
        if "Traceback" in self.err + self.out or "internal error" in self.err:
            return "a traceback"
        if self.code in (2, 4, 5) and "error[" not in self.err and not self.out and "Usage:" not in self.err:
            return f"exit code {self.code} without a word"
        return None


@dataclass(frozen=True)
class Shown:
    """What one command line left on a terminal; ``code`` is None if it was killed after too long."""

    argv: tuple[str, ...]
    code: int | None
    screen: Screen


class _Server:
    """A process that reads command lines from a pipe and answers on another one; replaced when one takes too long."""

    def __init__(self, folder: Path, limit: float) -> None:
        self._folder, self._limit = folder, limit
        self._process: subprocess.Popen[bytes] | None = None
        self._asks = self._answers = -1

    def _environ(self) -> dict[str, str]:
        """This process's, with the working folder as the home folder too: no command line touches the user's."""
        return {
            **os.environ,
            "FMHA_OFFLINE": "1",
            "HOME": str(self._folder),
            "PYTHONPATH": importable(),
        }

    def _start(self, stream: int, *mode: str) -> None:
        """Start it with this descriptor as its three streams."""
        self._stop()
        theirs, self._asks = os.pipe()
        self._answers, back = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs), str(back), *mode],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=self._environ(),
            pass_fds=(theirs, back),
        )
        os.close(theirs)
        os.close(back)

    def _gone(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _ask(self, argv: Sequence[str]) -> None:
        os.write(self._asks, json.dumps(list(argv)).encode("ascii") + b"\n")

    def _answer(self) -> bytes:
        """One line; nothing if the process is gone."""
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(self._answers, 65536)
            if not read:
                break
            line += read
        return line

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _stop(self) -> None:
        if self._process is not None:
            for descriptor in (self._asks, self._answers):
                os.close(descriptor)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        self._stop()


class Served(_Server):
    """Runs command lines with both streams in files."""

    def run(self, argv: Sequence[str]) -> Done:
        """Run one command line."""
        if self._gone():
            self._start(2)
        self._ask(argv)
        if not select.select([self._answers], [], [], self._limit)[0]:
            self._kill()
            return Done(tuple(argv), None, "", "")
        if line := self._answer():
            code, out, err = json.loads(line)
            return Done(tuple(argv), code, out, err)
        assert self._process is not None
        return Done(tuple(argv), self._process.wait(), "", "the process is gone")


class Terminal(_Server):
    """Runs command lines on a terminal of ``rows`` by ``columns``."""

    def __init__(self, folder: Path, limit: float, rows: int = 24, columns: int = 80) -> None:
        super().__init__(folder, limit)
        self.rows, self.columns = rows, columns
        self._shown, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _environ(self) -> dict[str, str]:
        hidden = ("COLUMNS", "LINES", "NO_COLOR")
        return {**{k: v for k, v in super()._environ().items() if k not in hidden}, "TERM": "xterm-256color"}

    def run(self, argv: Sequence[str]) -> Shown:
        """Run one command line and read its screen."""
        if self._gone():
            self._start(self._theirs, "terminal")
        screen, answer, last = Screen(self.columns), b"", b""
        self._ask(argv)
        until = time.monotonic() + self._limit
        while not answer or not last.endswith(_END):
            awaited = [self._shown] if answer else [self._shown, self._answers]
            ready = select.select(awaited, [], [], max(0.0, until - time.monotonic()))[0]
            if not ready:
                self._kill()
                return Shown(tuple(argv), None, screen)
            if self._shown in ready:
                data = os.read(self._shown, 65536)
                screen.feed(data)
                last = (last + data)[-len(_END) :]
            if self._answers in ready:
                answer = self._answer()
                if not answer:
                    return Shown(tuple(argv), -1, screen)
        return Shown(tuple(argv), json.loads(answer)[0], screen)

    def close(self) -> None:
        self._stop()
        os.close(self._shown)
        os.close(self._theirs)


def _serve(asks: int, answers: int, on_terminal: bool) -> None:
    """Answer each line of one pipe, an argv, with (exit code, stdout, stderr) on the other; the streams stay on a terminal."""
    gc.set_threshold(YOUNG_OBJECTS)  # as the command does
    from fmha_cli.cli.app import run

    for descriptor in (asks, answers):
        os.set_inheritable(descriptor, False)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(asks, encoding="ascii") as lines:
        for line in lines:
            files = () if on_terminal else ((out, 1), (err, 2))
            for file, descriptor in files:
                file.seek(0)
                file.truncate()
                os.dup2(file.fileno(), descriptor)
            try:
                code = run(json.loads(line), os.environ)
            except SystemExit as end:  # the parser's own way out, for instance of --install-completion
                code = int(end.code or 0)
            sys.stdout.flush()
            sys.stderr.flush()
            if on_terminal:
                os.write(1, _END)
            said = []
            for file, _ in files:
                file.seek(0)
                said.append(file.read().decode("utf-8", "surrogateescape"))
            os.write(answers, json.dumps([code, *said]).encode("ascii") + b"\n")


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["terminal"])
