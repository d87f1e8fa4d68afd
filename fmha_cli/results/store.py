"""``Store``: the file that keeps the records of all runs, one SQLite database in write-ahead mode.

Many processes may write at once; each record is one transaction, which is on the disk when it ends. A store that is damaged,
full, foreign or on a network file system is an ``EnvironmentProblem``; a run then goes on in a file of its own (``journal``).

Sources: sqlite.org/wal.html (several processes on one machine; not over a network), /pragma.html (``synchronous``: in that mode
``full`` is one fsync for each transaction, ``normal`` none, which a killed process does not notice and a power failure does),
/lang_vacuum.html (``VACUUM INTO``, the backup before a migration).
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.regular import open_regular
from fmha_cli.results.tables import STEPS, Foreign, Newer, migrate
from fmha_cli.system.files import BINARY, CLOEXEC, network_file_system

WAIT_S = 30.0
"""How long a process waits for another one's transaction. A transaction takes milliseconds."""

HELP = "--store FILE names another store, --no-store goes without"


class Store(AbstractContextManager["Store"]):
    """An open store. Make one with :meth:`open`, use it in one thread, and close it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self.known: dict[tuple[str, bytes], int] = {}
        """(table, digest) -> id of the shared parts of earlier records of this process."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        create: bool = True,
        reads: bool = False,
        alone: bool = False,
        wait_s: float = WAIT_S,
        steps: Sequence[str] = STEPS,
    ) -> Store:
        """Open a store, and bring an older one to the newest version.

        Args:
            create: make one if there is none.
            reads: the caller changes nothing, so one of the newest version may be on a file system or in a folder that
                cannot be written.
            alone: it is the file of one run, which one process writes; it may be on a network file system.

        Raises:
            EnvironmentProblem: X050, it cannot be used; X051, it is on a network file system.
        """
        kind = network_file_system(path.parent)
        if kind and not alone:
            why = f"{path.parent} is on {kind}"
            what = "the store of results is on a network file system"
            raise EnvironmentProblem(what, code="X051", where=str(path), why=why, help=HELP)
        with guarded(path):
            if create:
                _make(path)
            elif not path.is_file():
                raise FileNotFoundError(2, "there is no such file", str(path))
            connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
            try:
                migrate(connection, path, steps)
                connection.execute(f"pragma journal_mode = {'truncate' if kind else 'wal'}")
                connection.execute("pragma synchronous = full")
            except sqlite3.OperationalError as fault:
                connection.close()
                if not (reads and fault.sqlite_errorcode & 0xFF in _UNWRITABLE):
                    raise
                connection = _unchanging(path, steps)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    @contextmanager
    def transaction(self, *, synced: bool = True) -> Iterator[sqlite3.Connection]:
        """All changes of the body, or none.

        Args:
            synced: whether they outlast a power failure too, once this returns. A kill they outlast in any case.

        Raises:
            EnvironmentProblem: X050; nothing was changed.
        """
        before = dict(self.known)
        with guarded(self.path):
            try:
                if not synced:
                    self.connection.execute("pragma synchronous = normal")
                self.connection.execute("begin immediate")
                yield self.connection
                self.connection.execute("commit")
            except BaseException:
                self.known = before
                with suppress(sqlite3.Error):
                    self.connection.execute("rollback")
                raise
            finally:
                if not synced:
                    with suppress(sqlite3.Error):
                        self.connection.execute("pragma synchronous = full")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """All queries of the body see the same state.

        Raises:
            EnvironmentProblem: X050.
        """
        with guarded(self.path):
            self.connection.execute("begin")
            try:
                yield self.connection
            finally:
                self.connection.execute("rollback")

    def close(self) -> None:
        """Close the file; the last process that does so folds the write-ahead log into it."""
        with suppress(sqlite3.Error):
            self.connection.close()

    def __exit__(self, *exc: object) -> None:
        self.close()


_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def _unchanging(path: Path, steps: Sequence[str]) -> sqlite3.Connection:
    """A store that this user cannot write, as it is (sqlite.org/uri.html, ``immutable``). A write-ahead log next to it
    would be left out, so there must be none.

    Raises:
        sqlite3.Error, OSError, Newer, Foreign: it is not a store of this version, or another process has it open.
    """
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise PermissionError(errno.EACCES, "it cannot be written, and another process has it open")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    try:
        migrate(connection, path, steps)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turn errors of the file into an ``EnvironmentProblem``."""
    try:
        yield
    except Newer as fault:
        raise unusable(path, f"a newer fmha wrote it: {fault}") from fault
    except Foreign as fault:
        raise unusable(path, "it is another program's database") from fault
    except sqlite3.OperationalError as fault:
        readonly = fault.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY
        raise unusable(path, "this user may not write it" if readonly else str(fault)) from fault
    except (sqlite3.Error, OverflowError, UnicodeError) as fault:  # also a number or a text that SQLite cannot hold
        raise unusable(path, str(fault)) from fault
    except OSError as fault:
        raise unusable(path, fault.strerror or str(fault)) from fault


def is_database(path: Path) -> bool:
    """Whether a file has the form of a store.

    Raises:
        OSError: it cannot be read, or is no regular file: a pipe could block for ever.
    """
    with open_regular(path) as file:
        return file.read(16) == b"SQLite format 3\0"


def is_there(path: Path) -> bool:
    """Whether there is a store.

    Raises:
        EnvironmentProblem: X050, the system does not let its folder be looked into, or refuses the name.
    """
    with guarded(path):
        return path.exists()


def unusable(path: Path, why: str) -> EnvironmentProblem:
    """X050."""
    return EnvironmentProblem("the store of results cannot be used", code="X050", where=str(path), why=why, help=HELP)


def _make(path: Path) -> None:
    """The file, and the folder above it, for this user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | CLOEXEC | BINARY, 0o600))
