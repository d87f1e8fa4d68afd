"""What an interrupted ``fmha tune`` goes on from: its finished searches and choices, in its journal.

The same command finds the run by the identity of its invocation: everything that could change a time or a choice, which is the machine,
the kernels that compete, the problems and the settings. Another run therefore never finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
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
from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal, JournalPlaces
from fmha_cli.results.parts import about, row_key
from fmha_cli.results.plans import give_up, identity_of, last_of, refused
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
        order: digests of the kernels that have samples, the fastest first.
        running: digests of the kernels that were right and did not fail since.
        good: the number of kernels that were right.
    """

    row: TuneRow
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
    seen: dict[str, int] = field(default_factory=dict)

    def begin(self, problem: int) -> None:
        """A search of a problem begins."""
        key = self._key(problem, "search")
        self.attempts[problem] = self.attempts.get(problem, -1) + 1
        if problem not in self.closed:
            self._write(lambda journal: journal.planned(key))

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

    def keep_records(self, records: Sequence[Record]) -> None:
        """Keep the records of a search."""
        seen = self.seen
        keyed = {}
        for record in records:
            keyed[row_key(record, seen)] = record
            seen[about(record)] = seen.get(about(record), 0) + 1
        self._write(lambda journal: journal.add(keyed))

    def keep_search(self, problem: int, searched: Searched) -> None:
        """Keep a search that ended."""
        self._note(problem, "search", to_json(searched))

    def keep_choice(self, problem: int, chosen: Chosen) -> None:
        """Keep the outcome for a problem."""
        self._note(problem, "choice", to_json(chosen))

    def _note(self, problem: int, what: str, value: Mapping[str, Any]) -> None:
        if problem not in self.closed:
            self._write(lambda journal: journal.note(self._key(problem, what), value))

    def _key(self, problem: int, what: str) -> str:
        return key_of(self.keys[problem], what) if self.keys else ""

    def _write(self, write: Callable[[Journal], None]) -> None:
        if self.journal is None:
            return
        try:
            write(self.journal)
        except EnvironmentProblem as fault:
            self.notify(f"an interruption would lose what is measured from now on: {fault.what} ({fault.why})")


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
    store: Path | None,
    anew: bool,
) -> Notes:
    """The outcomes that an earlier session of a run kept. A dry run keeps nothing.

    Args:
        folder: of states. settings: those of the search and the confirmation, by name. store: of all runs.

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
    steps = [(key_of(one, what), f"{what} {flags}") for one, flags in problems for what in ("search", "choice")]
    start = Start(
        fmha=__version__,
        argv=tuple(request.argv),
        run=origin.run.id,
        started=origin.run.started,
        parts=parts(),
        rows=tuple(JournalRow(key=key, what=what) for key, what in steps),
    )
    spare = folder / "tune" / f"{identity_of(start)[:32]}-{start.run[:8]}.sqlite"
    places = JournalPlaces(store=store, spare=spare)
    notes = Notes(keys=[identity for identity, _ in problems], notify=context.voice.say)
    open_notes(notes, start, origin.run, places, stack, anew=anew)
    return notes


def open_notes(notes: Notes, start: Start, run: RunRow, places: JournalPlaces, stack: ExitStack, *, anew: bool) -> None:
    """Open the journal of a run, with the notes of the session that was interrupted.

    Args:
        start: the invocation; its rows are the steps of the problems.
        stack: closes the journal.
        anew: discard what an earlier session kept.

    Raises:
        UsageError: X030, the journal is damaged, or another process writes it.
    """
    try:
        identity = identity_of(start)
        spares = places.spare.parent.glob(f"{identity[:32]}-*.sqlite")
        found = last_of(spares, places.store, identity)
        if found is not None and anew:
            give_up(*found)
            found = None
        if found is None:
            notes.journal = stack.enter_context(Journal.create(start, run, places))
        else:
            path, kept = found
            places = places if kept else replace(places, spare=path)
            notes.journal = stack.enter_context(Journal.resume(path, kept, start, places))
    except UsageError as fault:
        raise replaced(fault) from fault
    except EnvironmentProblem as fault:
        notes.notify(f"an interruption would lose what is measured: {fault.what} ({fault.where})")
        return
    if found is not None:
        _read(notes, notes.journal)
        steps = f"{counted(len(notes.choices), 'problem')} of {len(notes.keys)} and {counted(len(notes.searches), 'search')}"
        began = notes.journal.state.start.started
        notes.notify(f"goes on where the run of {began} was interrupted: {steps} are done; {ANEW}")


def replaced(fault: UsageError) -> UsageError:
    """The fault of a journal that the user did not name."""
    return UsageError(fault.what, code=fault.code, where="fmha tune", why=fault.why, help=ANEW)


def _read(notes: Notes, journal: Journal) -> None:
    state = journal.state
    for problem, identity in enumerate(notes.keys):
        notes.attempts[problem] = state.attempts.get(key_of(identity, "search"), 0) - 1
        try:
            if search := state.notes.get(key_of(identity, "search")):
                notes.searches[problem] = from_json(Searched, search, "search")
            if choice := state.notes.get(key_of(identity, "choice")):
                notes.choices[problem] = from_json(Chosen, choice, "choice")
        except DecodeError as fault:
            raise replaced(refused(journal.path, f"problem {problem + 1}: {fault}")) from fault
