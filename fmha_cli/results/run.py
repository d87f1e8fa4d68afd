"""``KeptRun``: the records of one invocation, loaded by a name from the store, or from a file that a command wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.journal import JOURNAL
from fmha_cli.domain.reading import parsed, regular_bytes
from fmha_cli.report.parts import Environment
from fmha_cli.report.reading import ReportContent, content_of
from fmha_cli.report.record import Record
from fmha_cli.results.history import history_of
from fmha_cli.results.loading import environment_of, records_of, summaries
from fmha_cli.results.naming import is_file_name, named
from fmha_cli.results.place import store_path
from fmha_cli.results.store import Store, is_database, is_there


@dataclass(frozen=True)
class KeptRun:
    """The records of a run.

    Attributes:
        name: the name that the user asked for.
        records: in the order in which they were made.
        environment: None where the source does not state it.
        argv: the command line; empty where the source does not state it. ended: as in ``Summary``.
    """

    name: str
    records: tuple[Record, ...]
    environment: Environment | None = None
    argv: tuple[str, ...] = ()
    ended: str | None = None


def load_run(name: str, store: Path | None = None) -> KeptRun:
    """The run of a name: an id, a label, ``rev:COMMIT``, ``latest``, ``latest~1``, or the path of a file.

    Args:
        store: path of the store; None for the user's. A file needs none.

    Raises:
        UsageError: E050, the file holds no results; E051, the store has no such run.
        EnvironmentProblem: X050, X051, the store cannot be used.
    """
    if is_file_name(name):
        return run_of_file(Path(name))
    with opened_for(name, store_path() if store is None else store, reads=True) as opened:
        found = named(summaries(opened), name)
        return KeptRun(name, records_of(opened, found), environment_of(opened, found))


def opened_for(name: str, path: Path, *, reads: bool = False) -> Store:
    """The store, to look for a run.

    Args:
        reads: the caller changes nothing (``Store.open``).

    Raises:
        UsageError: E051, there is no store, so no run has the name.
        EnvironmentProblem: X050, X051, it cannot be used.
    """
    if not is_there(path):
        help, why = "fmha bench keeps its results there; a path names a file", f"there is no store {path}"
        raise UsageError(f"no run is called {name}", code="E051", where=name, why=why, help=help)
    return Store.open(path, create=False, reads=reads)


def run_of_file(path: Path) -> KeptRun:
    """The run in a file of ``--json`` or ``--jsonl``, or in a journal, of either form. A journal gives its finished rows.

    Raises:
        UsageError: E050, it cannot be read, or is something else.
    """
    try:
        if is_database(path):
            return _of_database(path)
        data = regular_bytes(path)
        content = _of_journal(path, data) if _is_journal(data) else content_of(data)
    except (OSError, DecodeError) as fault:
        why = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        help = "fmha bench ... --json -o FILE writes such a file; journals are read too"
        raise UsageError(f"{path}: no file of results", code="E050", where=str(path), why=why, help=help) from fault
    return KeptRun(str(path), content.records, content.environment)


def _is_journal(data: bytes) -> bool:
    first = data.partition(b"\n")[0]
    try:
        line = parsed(first)
    except DecodeError:
        return False
    schema = line.get("schema") if isinstance(line, dict) else None
    return isinstance(schema, str) and schema.startswith(JOURNAL.partition("/")[0] + "/")


def _of_journal(path: Path, data: bytes) -> ReportContent:
    try:
        return ReportContent(tuple(history_of(path, data).records.values()))
    except UsageError as fault:
        raise DecodeError(fault.what.removeprefix(f"journal {path}: ")) from fault


def _of_database(path: Path) -> KeptRun:
    try:
        with Store.open(path, create=False, reads=True, alone=True) as store:
            runs = summaries(store)
            if len(runs) != 1:
                raise DecodeError(f"it has {len(runs)} runs; --store FILE, and the name of one")
            run = runs[0]
            return KeptRun(str(path), records_of(store, run), environment_of(store, run), run.argv, run.ended)
    except EnvironmentProblem as fault:
        raise DecodeError(str(fault.why)) from fault
