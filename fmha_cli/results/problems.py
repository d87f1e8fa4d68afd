"""The problem of a record, from the command line that repeats it."""

from __future__ import annotations

import shlex

from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.fields import FIELDS
from fmha_cli.domain.problem import Problem
from fmha_cli.report.record import Record

_NAMES = frozenset(
    name for flag in FIELDS for name in (f"--{flag.name}", f"-{flag.short}" if flag.short else "") if name
)


def problem_of(record: Record) -> Problem | None:
    """The problem of a record; None if its command line does not lead back to it: its shapes came from files, or another version
    of this tool wrote it."""
    words = shlex.split(record.repro)[2:]  # fmha, and the command
    end = next((place for place, word in enumerate(words) if word.startswith("-") and not _is_flag(word)), len(words))
    try:
        found = Problem.from_cli(words[:end])
    except FmhaError:
        return None
    return found if found.to_dict() == dict(record.problem) else None


def _is_flag(word: str) -> bool:
    name = word.partition("=")[0]
    number = word[1:2].isdigit()  # a value such as -1
    return number or name in _NAMES or (not word.startswith("--") and word[:2] in _NAMES)
