"""What a run of ``fmha tune`` keeps on disk for the same command to continue after a kill: its finished searches and
choices.

The journal's name is the digest of everything that could change a time or a choice: the machine, the kernels that compete, the
problems and the settings. Another run therefore never finds it. It is removed when the run is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmha_cli import __version__
from fmha_cli.bench.roofline import CacheState
from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.journal import JournalRow, Start
from fmha_cli.report.documents.tune import TuneRow
from fmha_cli.report.lines import counted
from fmha_cli.report.parts import RunRow
from fmha_cli.results.history import History, refused
from fmha_cli.results.journal import Journal
from fmha_cli.run.input_files import InputFiles
from fmha_cli.run.invocation import parts_of
from fmha_cli.run.origin import Origin
from fmha_cli.run.request import Context
from fmha_cli.run.rows import Row
from fmha_cli.run.tuned_choice import Scopes
from fmha_cli.tune.candidates import Candidates

ANEW = "--anew starts over"


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A search that ended.

    Attributes:
        row: of the problem, as far as it came.
        records: of every candidate that was judged.
        order: digests of the kernels that have samples, the fastest first.
        running: digests of the kernels that were right and did not fail since.
        good: the number of kernels that were right.
    """

    row: TuneRow
    records: tuple[Mapping[str, Any], ...]
    order: tuple[str, ...]
    running: tuple[str, ...]
    good: int


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The outcome for a problem: its row, and the entry (JSON) that was remembered; None if nothing was tuned."""

    row: TuneRow
    entry: Mapping[str, Any] | None


@dataclass(kw_only=True)
class Notes:
    """The searches and choices of earlier sessions, by the number of the problem, and the journal that takes further ones.

    Without a journal it keeps nothing.
    """

    keys: Sequence[str] = ()
    journal: Journal | None = None
    searches: dict[int, Searched] = field(default_factory=dict)
    choices: dict[int, Chosen] = field(default_factory=dict)
    notify: Callable[[str], None] = lambda text: None
    attempts: dict[int, int] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)

    def begin(self, problem: int) -> None:
        """A search of a problem begins."""
        key = self._key(problem, "search")
        self.attempts[problem] = self.attempts.get(problem, -1) + 1
        self._write(problem, lambda journal: journal.planned(key))

    def row_of(self, problem: int, kernel: str) -> str | None:
        """The key of a candidate's record in this search: another session that searches again has others. None: nothing is kept."""
        if self.journal is None or problem in self.closed:
            return None
        return key_of(self.keys[problem], f"{kernel} {self.attempts.get(problem, 0)}")

    def forget(self, problem: int) -> None:
        """Tune a problem again without keeping more of it: its journal keys are used."""
        self.searches.pop(problem, None)
        self.choices.pop(problem, None)
        self.closed.add(problem)

    def keep_search(self, problem: int, searched: Searched) -> None:
        """Keep a search that ended."""
        done = {self._key(problem, "search"): to_json(searched)}
        self._write(problem, lambda journal: journal.done(done))

    def keep_choice(self, problem: int, chosen: Chosen) -> None:
        """Keep the outcome for a problem."""
        done = {self._key(problem, "choice"): to_json(chosen)}
        self._write(problem, lambda journal: journal.done(done))

    def _key(self, problem: int, what: str) -> str:
        return key_of(self.keys[problem], what) if self.keys else ""

    def _write(self, problem: int, line: Callable[[Journal], None]) -> None:
        if self.journal is None or problem in self.closed:
            return
        try:
            line(self.journal)
        except EnvironmentProblem as fault:
            self.notify(f"an interruption would lose what is measured from now on: {fault.what} ({fault.why})")
            self.journal = None

    def complete(self) -> None:
        """Every problem is reported: there is nothing to resume."""
        if self.journal is not None:
            self.journal.path.unlink(missing_ok=True)


def key_of(identity: str, what: str) -> str:
    """The key in the journal of a step of the problem with this identity."""
    return digest_of([identity, what])[:24]


def notes_of(
    every: Sequence[Candidates],
    folder: Path | None,
    settings: Mapping[str, str],
    context: Context,
    scopes: Scopes,
    origin: Origin,
    stack: ExitStack,
    *,
    anew: bool,
) -> Notes:
    """The outcomes that an earlier session of a run kept. A dry run keeps nothing.

    Args:
        folder: of states. settings: those of the search and the confirmation, by name.

    Raises:
        UsageError: see ``open_notes``.
    """
    request, cache = context.request, CacheState(context.request.cache)
    defaults = [(one, one.default) for one in every if one.default is not None]
    if request.dry_run or not defaults or folder is None:
        return Notes()

    def parts() -> dict[str, str]:
        rows = [
            Row(group=number, problem=one.problem, choice=best, plan=None, cache=cache)
            for number, (one, best) in enumerate(defaults)
        ]
        own = parts_of(rows, context, InputFiles({}, {}), scopes.found, scopes.host)
        return {**own, **{f"tune: {name}": text for name, text in settings.items()}}

    def identity(one: Candidates) -> str:
        """Digest of the problem, of all kernels that compete, and of the default's device, source and compiler."""
        default = one.default
        where = None if default is None else [default.device.id, scopes.of(one.problem, (default,), cache).digest]
        return digest_of([one.problem.to_dict(), [choice.kernel.digest for choice in one.choices], where])

    problems = [(identity(one), one.problem.repro()) for one in every]
    return open_notes(folder / "tune", problems, parts, request.argv, origin.run, stack, context.voice.say, anew=anew)


def open_notes(
    folder: Path,
    problems: Sequence[tuple[str, str]],
    parts: Callable[[], Mapping[str, str]],
    argv: Sequence[str],
    run: RunRow,
    stack: ExitStack,
    notify: Callable[[str], None],
    *,
    anew: bool,
) -> Notes:
    """The notes of this run, with those of the session that was interrupted.

    Args:
        folder: where journals are.
        problems: identity and flags of each problem; the identity holds everything about it that could change a choice.
        parts: everything else that could, by readable names.
        anew: discard what an earlier session kept.

    Raises:
        UsageError: X030, the journal is damaged, or another process writes it.
    """
    steps = [
        (key_of(identity, what), f"{what} {flags}") for identity, flags in problems for what in ("search", "choice")
    ]
    start = Start(
        fmha=__version__,
        argv=tuple(argv),
        run=run.id,
        started=run.started,
        parts=parts(),
        rows=tuple(JournalRow(key=key, what=what) for key, what in steps),
    )
    identity = digest_of([__version__, dict(start.parts), list(start.keys)])
    path = folder / f"{identity[:32]}.jsonl"
    notes = Notes(keys=[identity for identity, _ in problems], notify=notify)
    try:
        if anew:
            path.unlink(missing_ok=True)
        if not os.path.exists(path):
            notes.journal = stack.enter_context(Journal.create(path, start))
            return notes
        journal, history = Journal.resume(path, start)
    except UsageError as fault:
        raise replaced(fault) from fault
    except (EnvironmentProblem, OSError) as fault:
        why = fault.what if isinstance(fault, EnvironmentProblem) else str(fault.strerror)
        notify(f"an interruption would lose what is measured: {why} ({path})")
        return notes
    notes.journal = stack.enter_context(journal)
    _read(notes, path, history)
    told = f"{counted(len(notes.choices), 'problem')} of {len(problems)} and {counted(len(notes.searches), 'search')}"
    notify(f"goes on where the run of {journal.start.started} was interrupted: {told} are done; {ANEW}")
    return notes


def replaced(fault: UsageError) -> UsageError:
    """The fault of a journal that the user did not name."""
    return UsageError(fault.what, code=fault.code, where="fmha tune", why=fault.why, help=ANEW)


def _read(notes: Notes, path: Path, history: History) -> None:
    done = history.done
    for problem, identity in enumerate(notes.keys):
        begun = history.attempts.get(key_of(identity, "search"), 0)
        notes.attempts[problem] = begun - 1
        try:
            if search := done.get(key_of(identity, "search")):
                notes.searches[problem] = from_json(Searched, search, "search")
            if choice := done.get(key_of(identity, "choice")):
                notes.choices[problem] = from_json(Chosen, choice, "choice")
        except DecodeError as fault:
            raise replaced(refused(path, f"problem {problem + 1}: {fault}")) from fault
