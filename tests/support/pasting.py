"""Helpers that use a repro line as a person does: copy it from a record and paste it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from fmha_cli.domain.problem import Problem

ROOM = ("--arch", "--backend", "--device", "--fill", "--fill-seed", "--kernel", "--threads")
"""Options of a repro line that do not belong to the problem; each takes a value."""


def pasted(line: str) -> tuple[str, Problem, Mapping[str, str]]:
    """The command, problem and other options of a repro line."""
    program, command, *words = shlex.split(line)
    assert program == "fmha"
    options = {flag: words[words.index(flag) + 1] for flag in ROOM if flag in words}
    for flag in options:
        del words[words.index(flag) : words.index(flag) + 2]
    return command, Problem.from_cli(words), options


def words_after_fmha(line: str) -> Sequence[str]:
    """The argument list of a repro line."""
    return shlex.split(line)[1:]
