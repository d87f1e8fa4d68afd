"""The problems of a command line: files' shapes, the sweep, its announcement, and the points dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmha_cli.cli.call import Call
from fmha_cli.errors import UsageError
from fmha_cli.problem import Problem
from fmha_cli.sweep import expand, resolve

FILE_FLAGS = ("q", "k", "v", "do", "bias_file", "alibi_slopes", "sink_logits", "block_table") + (
    "q_descale",
    "k_descale",
    "v_descale",
)
"""Options that name tensor files; the contract's section 3."""


def file_flags(call: Call) -> dict[str, str]:
    """Flag key -> FILE[:KEY] of the tensors given as files."""
    return {key: text for key in FILE_FLAGS if (text := call.settings.text(key))}


def problems_of(call: Call) -> tuple[Problem, ...]:
    """Every problem asked for, in the order of ``fmha_cli.sweep``.

    Raises:
        UsageError: a malformed value or unreadable file.
        ImpossibleProblem: an impossible problem, or point of a sweep without ``--skip-impossible``.
    """
    sweep = expand(call.problem_flags)
    complete = _completion(call)
    problems, dropped = resolve(sweep, skip_impossible=call.settings.on("skip_impossible"), complete=complete)
    for point in dropped:
        call.voice.say(f"dropped {point.text}: {point.error.what}")
    if sweep.axes:
        less = f", {len(dropped)} impossible ones dropped" if dropped else ""
        call.voice.say(f"{sweep.text()}{less}")
    return problems


def one_problem(call: Call) -> Problem:
    """The problem of a command that takes one.

    Raises:
        UsageError: a sweep.
    """
    problems = problems_of(call)
    if len(problems) > 1:
        raise UsageError(f"fmha {call.command} takes one problem, not a sweep of {len(problems)}", code="E002")
    return problems[0]


def _completion(call: Call) -> Any:
    """What completes a point by the files' shapes; None without files."""
    files = file_flags(call)
    if not files or all(text.startswith("filled") for text in files.values()):
        return None
    from fmha_cli.walk.given import flags_from_files, read_given

    given = read_given(files)

    def complete(raw: Mapping[str, Any]) -> Mapping[str, Any]:
        return flags_from_files(raw, given)

    return complete
