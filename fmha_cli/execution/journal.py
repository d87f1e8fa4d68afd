"""The journal: the requested and the finished rows, on disk before and after every row.

It consists of JSON lines (``fmha.journal/1``): ``start`` with the keys of all rows, then ``planned`` before a row is
dispatched and ``done`` with its record after it. Every line is on the disk (fsync) before the call returns. A parent that
is killed therefore loses at most its current row, which is planned and not done, and which runs again. A line that the
kill cut short is dropped. One process writes at a time (a lock of the file).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import EnvironmentProblem, InternalError, UsageError
from fmha_cli.domain.journal import JOURNAL, Done, Line, Planned, Start, line_of

Record = Mapping[str, Any]


@dataclass(frozen=True)
class History:
    """The content of a journal.

    Attributes:
        start: the version that wrote it, the command line that it belongs to, and the keys of all requested rows.
        done: key -> record, in the order in which the rows were finished.
        attempts: key -> number of times that the row was dispatched.
        size: bytes up to the end of the last whole line.
    """

    start: Start
    done: Mapping[str, Record]
    attempts: Mapping[str, int]
    size: int

    @property
    def left(self) -> tuple[str, ...]:
        """Keys of the rows that are still to run, in order."""
        return tuple(key for key in self.start.rows if key not in self.done)


def read_history(path: Path) -> History:
    """Read a journal without locking it.

    Raises:
        UsageError: the file does not exist, is not a journal, or is damaged before its last line.
    """
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise _refused(path, f"it cannot be read: {fault.strerror}") from fault
    return _history(path, data)


class Journal:
    """A journal that is being written. Make one with :meth:`create` or :meth:`resume`, and close it.

    ``done`` refuses a row that the plan lacks or that is already done, so no row can occur twice.
    """

    def __init__(self, fd: int, path: Path, rows: Sequence[str], done: Mapping[str, Record]) -> None:
        self._fd = fd
        self.path = path
        self._rows = frozenset(rows)
        self._done = set(done)

    @classmethod
    def create(cls, path: Path, *, fmha: str, argv: Sequence[str], rows: Sequence[str]) -> Journal:
        """Start a journal. It appears under its name with its start line, or not at all.

        Args:
            fmha: this version.
            argv: the command line, from which ``--resume`` plans the same rows again.
            rows: the key of every row, each once.

        Raises:
            UsageError: the file already exists.
            EnvironmentProblem: it cannot be written.
            InternalError: two rows have one key.
        """
        if len(set(rows)) != len(rows):
            raise InternalError("two rows of a plan have one key")
        if path.exists():
            raise _taken(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise _unusable("opened", path.parent, fault) from fault
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        fd = _open(part, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        journal = cls(fd, path, rows, {})
        try:
            journal._write(Start(fmha=fmha, argv=tuple(argv), rows=tuple(rows)))
            _publish(part, path)
        except BaseException:
            journal.close()
            raise
        finally:
            part.unlink(missing_ok=True)
        return journal

    @classmethod
    def resume(cls, path: Path, *, fmha: str, rows: Sequence[str]) -> tuple[Journal, History]:
        """Take over a journal to finish it.

        Args:
            rows: the keys of the rows planned now; they must be those of the journal, in the same order.

        Raises:
            UsageError: it is not a journal, is damaged, has another plan or version, or another process writes it.
            EnvironmentProblem: it cannot be written.
        """
        fd = _open(path, os.O_RDWR | os.O_APPEND)
        try:
            with os.fdopen(os.dup(fd), "rb") as file:
                history = _history(path, file.read())
            start = history.start
            if start.fmha != fmha:
                raise _refused(path, f"fmha {start.fmha} wrote it, this is {fmha}")
            if start.rows != tuple(rows):
                raise _refused(path, f"its plan has other rows than this one ({len(start.rows)} and {len(rows)})")
            os.ftruncate(fd, history.size)
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, path, rows, history.done), history

    def planned(self, key: str) -> None:
        """Record that a row is about to be dispatched."""
        self._check(key)
        self._write(Planned(key=key))

    def done(self, key: str, record: Record) -> None:
        """Keep a row's record.

        Raises:
            InternalError: the row was not requested, or is already done.
            EnvironmentProblem: the disk is full or gone.
        """
        self._check(key)
        self._write(Done(key=key, record=record))
        self._done.add(key)

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


def _open(path: Path, flags: int) -> int:
    try:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileNotFoundError as fault:
        raise _refused(path, "there is no such file") from fault
    except OSError as fault:
        raise _unusable("opened", path, fault) from fault
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        os.close(fd)
        raise _refused(path, "another process is writing it") from fault
    return fd


def _history(path: Path, data: bytes) -> History:
    """The journal's lines, checked. A last line that is cut short or is not JSON is left out."""
    lines = data.split(b"\n")
    torn = lines.pop()
    entries: list[Line] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = line_of(json.loads(line))
        except ValueError as fault:
            if number > 1 and number == len(lines) and not torn:
                lines.pop()
                break
            raise _refused(path, f"line {number} is not {JOURNAL}") from fault
        entries.append(entry)
    if not entries or not isinstance(start := entries[0], Start):
        raise _refused(path, "it does not begin with a start line")
    rows = frozenset(start.rows)
    done: dict[str, Record] = {}
    attempts: dict[str, int] = {}
    for number, entry in enumerate(entries[1:], 2):
        if isinstance(entry, Start) or (key := entry.key) not in rows or key in done:
            raise _refused(path, f"line {number} names a row that is not in the plan, or is already done")
        if isinstance(entry, Planned):
            attempts[key] = attempts.get(key, 0) + 1
        else:
            done[key] = entry.record
    size = sum(len(line) + 1 for line in lines)
    return History(start, done, attempts, size)


def _unusable(verb: str, path: Path, fault: OSError) -> EnvironmentProblem:
    return EnvironmentProblem(f"the journal cannot be {verb}", code="X031", where=str(path), why=fault.strerror)


def _refused(path: Path, why: str, help: str = "start again without --resume") -> UsageError:
    return UsageError(f"journal {path}: {why}", code="X030", where="--resume", help=help)


def _taken(path: Path) -> UsageError:
    return _refused(path, "it already exists", f"--resume {path} finishes it")


def _publish(part: Path, path: Path) -> None:
    """Give a file its name without replacing another file. The name is durable when this returns."""
    try:
        os.link(part, path)
    except FileExistsError as fault:
        raise _taken(path) from fault
    except OSError:  # a file system without hard links: a process that creates the same journal now is not noticed
        part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
