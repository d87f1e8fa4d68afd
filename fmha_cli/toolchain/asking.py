"""Query a program: start it, wait, read its output."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.toolchain.cpp.compile import first_error_line
from fmha_cli.toolchain.process import TimeLimits, compiler_environment, run_group

ASK_S = 120.0
"""Seconds of processor time for one question; the slowest, a whole kernel, takes a few."""


@dataclass(frozen=True)
class ProgramAnswer:
    """The output of a program, both streams together, whether it succeeded, and the limit at which it was killed, in words."""

    ok: bool
    text: str
    killed_after: str | None = None

    @property
    def fault(self) -> str:
        """The first error line, or another clue, at most 300 characters."""
        if self.killed_after:
            return f"was killed after {self.killed_after}"
        lines = [line for line in self.text.splitlines() if line.strip()]
        line = first_error_line(self.text) or next((line for line in lines if "error" in line.lower()), None)
        return (line or (lines[-1] if lines else "failed without a message")).strip()[:300]


_ROOM = 4096


def _need_room(work: Path) -> None:
    """A program whose words a full disk swallowed is not one that does not answer.

    Raises:
        OSError: the folder cannot be written.
    """
    file = work / f"{uuid.uuid4().hex}.room"
    file.write_bytes(bytes(_ROOM))
    file.unlink()


def ask(command: Sequence[str], work: Path) -> ProgramAnswer:
    """Run a command in a folder of the cache.

    Raises:
        OSError: the folder cannot be written.
    """
    scratch, said = work / "scratch", work / f"{uuid.uuid4().hex}.txt"
    limits = TimeLimits.of_compile(ASK_S)
    scratch.mkdir(exist_ok=True)
    with said.open("xb", buffering=0) as file:
        try:
            ended = run_group(command, cwd=work, env=compiler_environment(scratch), output=file, limits=limits)
        except OSError as error:
            return ProgramAnswer(ok=False, text=f"{command[0]} cannot be started: {error.strerror}")
    text = said.read_text("utf-8", errors="replace")
    if ended.returncode or not text:
        _need_room(work)
    said.unlink()
    killed_after = None if ended.over is None else limits.text(ended.over)
    return ProgramAnswer(ended.returncode == 0 and not killed_after, text, killed_after)
