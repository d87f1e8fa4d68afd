"""The journal: the requested and the finished rows, on disk before and after every row.

It consists of JSON lines (``fmha.journal/2``): ``start`` with the rows and with everything that could change them, ``built``
with the kernels of a session, ``planned`` before a row is dispatched and ``done`` with its record after it. Every line is on
the disk (fsync) before the call returns. A parent that is killed therefore loses at most its current row, which is planned
and not done, and which runs again. A line that the kill cut short is dropped. One process writes at a time (a lock of the
file).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import EnvironmentProblem, InternalError, UsageError
from fmha_cli.domain.journal import Finished, JournalBuilt, JournalDone, JournalPlanned, Line, Start
from fmha_cli.domain.regular import open_regular
from fmha_cli.results.history import History, Record, history_of, refused
from fmha_cli.system.files import BINARY, CLOEXEC, sync_folder
from fmha_cli.system.locks import try_lock


class Journal:
    """A journal that is being written. Make one with :meth:`create` or :meth:`resume`, and close it.

    ``done`` refuses a row that the plan lacks or that is already done, so no row can occur twice.
    """

    def __init__(self, fd: int, path: Path, start: Start, done: Mapping[str, Record]) -> None:
        self._fd = fd
        self.path = path
        self.start = start
        self._rows = frozenset(start.keys)
        self._done = set(done)
        self._built: Mapping[str, str | None] = {}

    @classmethod
    def create(cls, path: Path, start: Start) -> Journal:
        """Start a journal. It appears under its name with its start line, or not at all.

        Raises:
            UsageError: the file already exists.
            EnvironmentProblem: it cannot be written.
            InternalError: two rows have one key.
        """
        if len(set(start.keys)) != len(start.rows):
            raise InternalError("two rows of a plan have one key")
        refuse_taken(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise _unusable("opened", path.parent, fault) from fault
        part = path.with_name(f".{path.name[:40]}.{os.getpid()}.part")
        fd = _open(part, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        journal = cls(fd, path, start, {})
        try:
            journal._write(start)
            _publish(part, path)
        except BaseException:
            journal.close()
            raise
        finally:
            part.unlink(missing_ok=True)
        return journal

    @classmethod
    def resume(cls, path: Path, here: Start) -> tuple[Journal, History]:
        """Take over a journal to finish it. The run keeps the id that the journal states.

        Args:
            here: this invocation; it must be the one that wrote the journal in every part.

        Raises:
            UsageError: it is not a journal, is damaged, belongs to another invocation, or another process writes it.
            EnvironmentProblem: it cannot be written.
        """
        _refuse_irregular(path)
        fd = _open(path, os.O_RDWR | os.O_APPEND)
        try:
            with os.fdopen(os.dup(fd), "rb") as file:
                history = history_of(path, file.read())
            if differs := difference(history.start, here):
                help = "repeat the command line that wrote it, or start again without --resume"
                raise refused(path, differs, help)
            os.ftruncate(fd, history.size)
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        journal = cls(fd, path, history.start, history.done)
        journal._built = history.built
        return journal, history

    def built(self, kernels: Mapping[str, str | None]) -> None:
        """Keep which kernels this session runs: kernel digest -> digest of the key of its build, None if it failed.

        Raises:
            UsageError: an earlier session ran other builds of the same kernels.
        """
        if differs := rebuilt(self._built, kernels):
            raise refused(self.path, differs)
        if kernels:
            self._write(JournalBuilt(kernels=dict(kernels)))

    def planned(self, key: str) -> None:
        """Record that a row is about to be dispatched."""
        self._check(key)
        self._write(JournalPlanned(key=key))

    def done(self, records: Mapping[str, Record]) -> None:
        """Keep the records of some rows, by their keys: after a kill all of them are there, or none.

        Raises:
            InternalError: the row was not requested, or is already done.
            EnvironmentProblem: the disk is full or gone.
        """
        for key in records:
            self._check(key)
        rows = tuple(Finished(key=key, record=record) for key, record in records.items())
        self._write(JournalDone.of(self.start, rows))
        self._done.update(records)

    def _check(self, key: str) -> None:
        if key not in self._rows or key in self._done:
            raise InternalError(f"row {key} is not in this plan, or is already done", where=str(self.path))

    def _write(self, line: Line) -> None:
        data = canonical_json(to_json(line)).encode("ascii") + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        except OSError as fault:
            raise _unusable("written", self.path, fault) from fault

    def close(self) -> None:
        """Close the file; its content stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


RELEASED_S = 0.5
"""How long a lock may outlive a writer that was killed: a process that it had just forked holds it until it becomes another program."""


def _open(path: Path, flags: int) -> int:
    try:
        fd = os.open(path, flags | CLOEXEC | BINARY, 0o644)
    except FileNotFoundError as fault:
        raise refused(path, "there is no such file") from fault
    except OSError as fault:
        raise _unusable("opened", path, fault) from fault
    until = time.monotonic() + RELEASED_S
    try:
        while not (held := try_lock(fd)) and time.monotonic() < until:
            time.sleep(RELEASED_S / 50)
    except OSError as fault:
        os.close(fd)
        raise refused(path, f"it cannot be locked ({fault.strerror})") from fault
    if not held:
        os.close(fd)
        raise refused(path, "another process is writing it")
    return fd


def _refuse_irregular(path: Path) -> None:
    """Refuse a folder, a device or a pipe before it is opened: a pipe could block for ever."""
    try:
        open_regular(path).close()
    except OSError as fault:
        if fault.errno == errno.EINVAL:  # opening it for writing gives every other reason
            raise refused(path, str(fault.strerror)) from fault


def _unusable(verb: str, path: Path, fault: OSError) -> EnvironmentProblem:
    what, help = f"the journal cannot be {verb}", "--journal FILE names another place"
    return EnvironmentProblem(what, code="X031", where=str(path), why=fault.strerror, help=help)


def refuse_taken(path: Path) -> None:
    """Raises UsageError: X030, there is such a file already."""
    if os.path.exists(path):  # unlike Path.exists, False for a name that is too long; opening it says so
        raise _taken(path)


def _taken(path: Path) -> UsageError:
    help = f"name another file; if it is the journal of this command, --resume {path} finishes it"
    return UsageError(f"journal {path}: it already exists", code="X030", where="--journal", help=help)


def _publish(part: Path, path: Path) -> None:
    """Give a file its name without replacing another file. The name is durable when this returns."""
    try:
        os.link(part, path)
    except FileExistsError as fault:
        raise _taken(path) from fault
    except OSError:  # a file system without hard links: a process that creates the same journal now is not noticed
        try:
            part.rename(path)
        except OSError as fault:
            raise _unusable("opened", path, fault) from fault
    sync_folder(path.parent)


_SHOWN = 3
"""Differences that one message names."""

_LONGEST = 80


def difference(there: Start, here: Start) -> str | None:
    """How the invocation that wrote a journal differs from this one, in words; None if it does not.

    Only what can change a row counts. The command line itself, the time and the number of compilers do not.
    """
    if there.fmha != here.fmha:
        return f"fmha {there.fmha} wrote it, this is {here.fmha}"
    names = dict.fromkeys((*here.parts, *there.parts))
    found = [said for name in names if (said := _part(name, here.parts.get(name), there.parts.get(name)))]
    found = found or _rows(there, here)
    if not found:
        return None
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "it belongs to another invocation: " + "; ".join(found[:_SHOWN]) + more


def _part(name: str, here: str | None, there: str | None) -> str | None:
    if here == there:
        return None
    if here is None:
        return f"{name} is absent here, {_short(there)} in the journal"
    if there is None:
        return f"{name} is {_short(here)} here, absent in the journal"
    if here.startswith("sha256:") and there.startswith("sha256:"):
        return f"{name} has changed"
    return f"{name} is {_short(here)} here, {_short(there)} in the journal"


def _rows(there: Start, here: Start) -> list[str]:
    for number, (mine, other) in enumerate(zip(here.rows, there.rows, strict=False), 1):
        if mine != other:
            return [f"row {number} is {_short(mine.what)} here, {_short(other.what)} in the journal"]
    if len(here.rows) != len(there.rows):
        return [f"it has other rows than this command line ({len(there.rows)} and {len(here.rows)})"]
    return []


def _short(text: str | None) -> str:
    """A value that a stranger's file may hold, short and in printable characters."""
    shown = str(text) if str(text).isprintable() else ascii(text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


def rebuilt(there: Mapping[str, str | None], here: Mapping[str, str | None]) -> str | None:
    """How the kernels of a journal differ from those built now, in words; None if no kernel of both differs.

    Args:
        there, here: kernel digest, or ``DIGEST@DIR`` of a kernel from its own tree -> digest of the key of its build,
            None if it could not be built.
    """
    for name, key in here.items():
        if name in there and there[name] != key:
            digest, at, home = name.partition("@")
            kernel = f"{digest[:8]}{at}{_short(home)}"
            if key is None or there[name] is None:
                now, then = ("cannot", "could") if key is None else ("can", "could not")
                return f"kernel {kernel} {now} be built here and {then} be built for the journal"
            return f"kernel {kernel} is built from other sources, with other flags or by another compiler than there"
    return None
