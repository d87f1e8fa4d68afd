"""Ask a program something: start it, wait, read what it says."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.build.compile import first_error_line
from fmha_cli.build.process import compiler_environment, run_group

ASK_S = 120.0
"""Seconds for one question; the slowest, a whole kernel, takes a few."""


class RocmProbeError(Exception):
    """A HIP compiler that does not work; the message says why in one line, ``help`` what to do.

    Attributes:
        help: what to install or to change; None where nothing is known.
    """

    def __init__(self, text: str, help: str | None = None) -> None:
        super().__init__(text)
        self.help = help


@dataclass(frozen=True)
class Answer:
    """What a program said: both streams together, and whether it ended well."""

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
        return (line or (lines[-1] if lines else "failed without a word")).strip()[:300]


def ask(command: Sequence[str], work: Path) -> Answer:
    """Run a command in a folder of the cache.

    Raises:
        OSError: the folder cannot be written.
    """
    scratch, said = work / "scratch", work / f"{uuid.uuid4().hex}.txt"
    scratch.mkdir(exist_ok=True)
    try:
        with said.open("xb", buffering=0) as file:
            ended = run_group(command, cwd=work, env=compiler_environment(scratch), output=file, timeout=ASK_S)
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        return Answer(ok=False, text=f"cannot be started: {error.strerror}", timed_out=False)
    text = said.read_text("utf-8", errors="replace")
    said.unlink()
    return Answer(ended.returncode == 0 and not ended.timed_out, text, ended.timed_out)


def version_number(text: str) -> int | None:
    """The major version in what ``--version`` prints; None where there is none."""
    match = re.search(r"version (\d+)\.", text)
    return int(match[1]) if match else None
