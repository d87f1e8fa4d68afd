"""The problems of a command line: files' shapes, the sweep, its announcement, and the points dropped."""

from __future__ import annotations

from functools import partial
from typing import Any

from fmha_cli.cli.call import Call
from fmha_cli.discovery.sweep import expand, resolve
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.walk.request import TENSOR_OF_FLAG


def file_flags(call: Call) -> dict[str, str]:
    """Flag key -> FILE[:KEY] of the tensors given as files."""
    return {key: text for key in TENSOR_OF_FLAG if (text := call.settings.text(key))}


def problems_of(call: Call) -> tuple[Problem, ...]:
    """Every problem asked for, in the order of ``fmha_cli.discovery.sweep``.

    Raises:
        UsageError: a malformed value or unreadable file.
        ImpossibleProblem: an impossible problem, or point of a sweep without ``--skip-impossible``.
    """
    sweep = expand(call.problem_flags)
    complete = _completion(call)
    problems, dropped = resolve(sweep, skip_impossible=call.settings.on("skip_impossible"), complete=complete)
    for point in dropped:
        call.console.say(f"dropped {point.text}: {point.error.what}")
    if sweep.axes:
        less = f", {len(dropped)} impossible ones dropped" if dropped else ""
        call.console.say(f"{sweep.text()}{less}")
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
    from fmha_cli.walk.input_files import flags_from_files, read_input_files

    return partial(flags_from_files, given=read_input_files(files))
