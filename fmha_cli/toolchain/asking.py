"""Ask a program something: start it, wait, read what it prints."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.toolchain.cpp.compile import first_error_line
from fmha_cli.toolchain.process import compiler_environment, run_group

ASK_S = 120.0
"""Seconds for one question; the slowest, a whole kernel, takes a few."""


@dataclass(frozen=True)
class Answer:
    """The output of a program, both streams together, and whether it succeeded."""

    ok: bool
    text: str
    timed_out: bool

    @property
    def fault(self) -> str:
        """The first error line, or what else is known, at most 300 characters."""
        if self.timed_out:
            return f"did not end within {ASK_S:.0f} s"
        lines = [line for line in self.text.splitlines() if line.strip()]
        line = first_error_line(self.text) or next((line for line in lines if "error" in line.lower()), None)
        return (line or (lines[-1] if lines else "failed without a message")).strip()[:300]


def ask(command: Sequence[str], work: Path) -> Answer:
    """Run a command in a folder of the cache.

    Raises:
        OSError: the folder cannot be written.
    """
    scratch, said = work / "scratch", work / f"{uuid.uuid4().hex}.txt"
    scratch.mkdir(exist_ok=True)
    with said.open("xb", buffering=0) as file:
        try:
            ended = run_group(command, cwd=work, env=compiler_environment(scratch), output=file, timeout=ASK_S)
        except OSError as error:
            return Answer(ok=False, text=f"{command[0]} cannot be started: {error.strerror}", timed_out=False)
    text = said.read_text("utf-8", errors="replace")
    said.unlink()
    return Answer(ended.returncode == 0 and not ended.timed_out, text, ended.timed_out)
