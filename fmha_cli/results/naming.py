"""The names of runs in the store: the beginning of an id, a label, ``rev:COMMIT``, ``latest`` and ``latest~1``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import suggest
from fmha_cli.results.loading import Summary

SHORTEST = 4
"""Digits of an id or of a commit that a name must have."""

_LATEST = re.compile(r"latest(?:~([0-9]{1,6}))?")
_DIGITS = re.compile(rf"[0-9a-f]{{{SHORTEST},32}}")


_ENDINGS = (".json", ".jsonl")


def is_file_name(name: str) -> bool:
    """Whether the name of a run is a path: it has a separator or an ending of such files, or the file exists."""
    separators = (os.sep, *filter(None, (os.altsep,)))
    return name.endswith(_ENDINGS) or any(mark in name for mark in separators) or os.path.isfile(name)


def named(runs: Sequence[Summary], name: str) -> Summary:
    """The run of a name.

    A label and a commit name the newest run that has them. Runs without records count for an id alone.

    Args:
        runs: all runs, the newest first.

    Raises:
        UsageError: E051, no run has the name, or the beginning of an id fits several.
    """
    filled = [run for run in runs if run.records]
    if match := _LATEST.fullmatch(name):
        back = int(match[1] or 0)
        if back < len(filled):
            return filled[back]
        raise _unknown(name, f"the store has {len(filled)} runs with records", runs)
    if name.startswith("rev:"):
        commit = name.removeprefix("rev:")
        found = (
            [run for run in filled if (run.about.revision or "").startswith(commit)] if len(commit) >= SHORTEST else []
        )
        if found:
            return found[0]
        raise _unknown(name, f"no run was made at this commit; a name has at least {SHORTEST} digits", runs)
    labelled = [run for run in filled if run.about.label == name]
    if labelled:
        return labelled[0]
    fitting = [run for run in runs if run.about.id.startswith(name)] if _DIGITS.fullmatch(name) else []
    if len(fitting) > 1:
        ids = ", ".join(run.about.id[:12] for run in fitting[:4])
        raise _unknown(name, f"the ids of {len(fitting)} runs begin so: {ids}", runs)
    if not fitting:
        raise _unknown(name, "no run has this label or id", runs)
    return fitting[0]


def _unknown(name: str, why: str, runs: Sequence[Summary]) -> UsageError:
    known = [*dict.fromkeys(run.about.label for run in runs if run.about.label), "latest"]
    help = suggest(name, known, otherwise="`fmha results ls` lists the runs")
    return UsageError(f"no run is called {name}", code="E051", where=name, why=why, help=help)
