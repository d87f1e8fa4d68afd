"""``--watch``: the command again whenever a file of the user's tree of sources changes, until it is interrupted.

Files are looked at by their times and sizes, between the rounds only, so nothing disturbs a measurement.
What changes during a round starts the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.request import own_options
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, FmhaError, InternalError, UsageError
from fmha_cli.domain.installation import Sourced
from fmha_cli.domain.wording import listed
from fmha_cli.report.form import Format
from fmha_cli.run.request import NamedKernel
from fmha_cli.toolchain.cache.memo import Stamps, stamps

POLL_S = 0.5
"""Seconds between two looks at the tree. A round starts when two looks in a row agree, because editors and version control
write several files one after the other."""


@dataclass(frozen=True)
class Tree:
    """A tree that is watched: the folder that the user named, and the backend that builds from it."""

    backend: Sourced
    home: str

    def look(self) -> Mapping[str, Path]:
        """The files that kernels can include, by names that say which tree they are of.

        Raises:
            EnvironmentProblem: the folder holds no such tree.
        """
        return self.backend.home_files(self.home)


def watch(call: CliCall, walk: Callable[[CliCall], int]) -> int:
    """Run the command, and again after every change. Returns when it is interrupted, or nobody reads its rows.

    The first round's errors end the command, because a command line that is wrong does not mend itself. Later ones are
    printed, and the loop waits for the next change.

    Raises:
        UsageError: E002, no tree to watch, or an option for a single round.
        KeyboardInterrupt: the user interrupted between two rounds.
    """
    _refuse_single(call)
    trees = _trees(call)
    seen = _seen(trees)
    code = walk(call)
    if not _over(call, code):
        folders = " and ".join(dict.fromkeys(tree.home for tree in trees))
        call.console.say(f"watching {len(seen)} files of {folders}; Ctrl-C ends")
    number = 1
    while not _over(call, code):
        now = _settled(trees, seen)
        number += 1
        changes = _changes(seen, now)
        call.console.say(f"round {number}: {listed(changes)}")
        seen = now
        try:
            code = walk(call)
        except InternalError:
            raise
        except FmhaError as fault:
            call.console.error(fault.render())
    return code


def _over(call: CliCall, code: int) -> bool:
    return code == ExitCode.INTERRUPTED or call.output.gone


def _refuse_single(call: CliCall) -> None:
    """Raises UsageError: E002, an option that makes sense for one round only."""
    output = call.output
    if output.path is None and output.form not in (Format.TABLE, Format.JSONL):
        what = f"--watch and --{output.form} on stdout contradict each other: every round would print a document"
        help = "--jsonl prints one row a line; -o FILE holds the last round"
        raise UsageError(what, code="E002", where=f"--{output.form}", help=help)
    for key in ("resume", "journal"):
        if call.settings.text(key) is not None:
            what = f"--watch and --{key} contradict each other: a journal belongs to one round"
            raise UsageError(
                what, code="E002", where=call.settings.where(key), help=f"without --{key} or without --watch"
            )


def _trees(call: CliCall) -> list[Tree]:
    """The trees that the command line names, by options and as ``K@DIR``.

    Raises:
        UsageError: E002, none.
        EnvironmentProblem: a folder holds no tree.
    """
    given = own_options(call)
    backends = {b.home_option: b for b in call.registry.backends.values() if isinstance(b, Sourced) and b.home_option}
    found = [Tree(backend, given[option]) for option, backend in backends.items() if option in given]
    for side in (NamedKernel.parse(text, "--ab") for text in call.settings.many("ab")):
        if side.home is not None:
            found.append(_owner([Tree(backend, side.home) for backend in backends.values()]))
    if not found:
        help = " or ".join(f"--{option} DIR" for option in backends)
        raise UsageError("--watch: no tree to watch", code="E002", where="--watch", help=f"{help}, or --ab K K@DIR")
    for tree in found:
        tree.look()
    return found


def _owner(candidates: Sequence[Tree]) -> Tree:
    """The tree of the backend whose sources the folder holds.

    Raises:
        EnvironmentProblem: it holds those of none.
    """
    faults: list[EnvironmentProblem] = []
    for tree in candidates:
        try:
            tree.look()
            return tree
        except EnvironmentProblem as fault:
            faults.append(fault)
    raise faults[0]


def _seen(trees: Sequence[Tree]) -> Stamps:
    """Times and sizes now. A tree that is not there for the moment has no files."""
    found: dict[str, tuple[int, int] | None] = {}
    for tree in trees:
        try:
            files = tree.look()
        except EnvironmentProblem:
            continue
        marks = stamps(map(str, files.values()))
        single = len({other.home for other in trees}) == 1
        found |= {name if single else f"{tree.home}/{name}": marks[str(path)] for name, path in files.items()}
    return found


def _settled(trees: Sequence[Tree], before: Stamps) -> Stamps:
    """The next state of the trees that differs from ``before`` and has not changed between two looks."""
    last = _seen(trees)
    while True:
        if last == before:
            time.sleep(POLL_S)
            last = _seen(trees)
            continue
        time.sleep(POLL_S)
        now = _seen(trees)
        if now == last:
            return now
        last = now


def _changes(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """``a.hpp changed``, ``b.hpp is new``, ``c.hpp is gone``."""
    changed = [f"{name} changed" for name in sorted(before.keys() & now.keys()) if before[name] != now[name]]
    new = [f"{name} is new" for name in sorted(now.keys() - before.keys())]
    return [*changed, *new, *(f"{name} is gone" for name in sorted(before.keys() - now.keys()))]
