"""The journal: what was asked for and what is done, on disk before and after every row.

JSON lines (``fmha.journal/1``): ``start`` with the keys of all rows, then ``planned`` before a row is dispatched
and ``done`` with its record after it. Every line is on the disk (fsync) before the call returns, so a parent
that is killed at any point loses at most the row it was in: that row is planned, not done, and runs again.
A line that was cut short by the kill is dropped. One process writes at a time (a lock of the file).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fmha_cli.errors import EnvironmentProblem, InternalError, UsageError

SCHEMA = "fmha.journal/1"

Record = Mapping[str, Any]


@dataclass(frozen=True)
class History:
    """What a journal holds.

    Attributes:
        rows: the keys of all rows that were asked for, in order.
        done: key -> record, in the order in which they were finished.
        attempts: key -> how often the row was dispatched.
        size: bytes up to the end of the last whole line.
    """

    fmha: str
    argv: tuple[str, ...]
    rows: tuple[str, ...]
    done: Mapping[str, Record]
    attempts: Mapping[str, int]
    size: int

    @property
    def left(self) -> tuple[str, ...]:
        """Keys of the rows that are still to run, in order."""
        return tuple(key for key in self.rows if key not in self.done)


def read_history(path: Path) -> History:
    """Read a journal without taking it over.

    Raises:
        UsageError: no such file, not a journal, or damaged anywhere but in its last line.
    """
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise _refused(path, f"it cannot be read: {fault.strerror}") from fault
    return _history(path, data)


class Journal:
    """A journal that is being written. Make one with :meth:`create` or :meth:`resume`; close it in the end.

    ``done`` refuses a row that is not of the plan or done already, so that no row can be doubled.
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
            fmha: this version. argv: the command line, from which ``--resume`` plans the same rows again.
            rows: the key of every row, each once.

        Raises:
            UsageError: the file is there already.
            EnvironmentProblem: it cannot be written.
            InternalError: two rows have one key.
        """
        if len(set(rows)) != len(rows):
            raise InternalError("two rows of a plan have one key")
        if path.exists():
            raise _taken(path)
        _make_folder(path.parent)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        fd = _open(part, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        journal = cls(fd, path, rows, {})
        try:
            journal._write({"event": "start", "fmha": fmha, "argv": list(argv), "rows": list(rows)})
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
            rows: the keys of the rows planned now; they must be those of the journal, in their order.

        Raises:
            UsageError: not a journal, damaged, of another plan or version, or another process writes it.
            EnvironmentProblem: it cannot be written.
        """
        fd = _open(path, os.O_RDWR | os.O_APPEND)
        try:
            with os.fdopen(os.dup(fd), "rb") as file:
                history = _history(path, file.read())
            if history.fmha != fmha:
                raise _refused(path, f"fmha {history.fmha} wrote it, this is {fmha}")
            if history.rows != tuple(rows):
                raise _refused(path, f"its plan has other rows than this one ({len(history.rows)} and {len(rows)})")
            os.ftruncate(fd, history.size)
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, path, rows, history.done), history

    def planned(self, key: str) -> None:
        """Say that a row is about to be dispatched."""
        self._check(key)
        self._write({"event": "planned", "key": key})

    def done(self, key: str, record: Record) -> None:
        """Keep a row's record.

        Raises:
            InternalError: a row that was not asked for, or is done already.
            EnvironmentProblem: the disk is full or gone.
        """
        self._check(key)
        self._write({"event": "done", "key": key, "record": record})
        self._done.add(key)

    def _check(self, key: str) -> None:
        if key not in self._rows or key in self._done:
            raise InternalError(f"row {key} is not of this plan, or done already", where=str(self.path))

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps({"schema": SCHEMA, **line}, sort_keys=True, separators=(",", ":"), allow_nan=False)
        data = text.encode("utf-8") + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        except OSError as fault:
            raise _unusable("written", self.path, fault) from fault

    def close(self) -> None:
        """Let go of the file; what was written stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise _unusable("opened", folder, fault) from fault


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
    """The journal's lines, checked; a last line that is cut short or no JSON is left out."""
    lines = data.split(b"\n")
    torn = lines.pop()
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            if entry["schema"] != SCHEMA or entry["event"] not in ("start", "planned", "done"):
                raise ValueError("schema")
        except (ValueError, KeyError, TypeError) as fault:
            if number > 1 and number == len(lines) and not torn:
                lines.pop()
                break
            raise _refused(path, f"line {number} is not {SCHEMA}") from fault
        entries.append(entry)
    if not entries or entries[0]["event"] != "start":
        raise _refused(path, "it does not begin with a start line")
    start = entries[0]
    rows = frozenset(start["rows"])
    done: dict[str, Record] = {}
    attempts: dict[str, int] = {}
    for number, entry in enumerate(entries[1:], 2):
        key = entry.get("key")
        if key not in rows or key in done:
            raise _refused(path, f"line {number} is about a row that is not of the plan, or done already")
        if entry["event"] == "planned":
            attempts[key] = attempts.get(key, 0) + 1
        else:
            done[key] = entry["record"]
    size = sum(len(line) + 1 for line in lines)
    return History(start["fmha"], tuple(start["argv"]), tuple(start["rows"]), done, attempts, size)


def _unusable(verb: str, path: Path, fault: OSError) -> EnvironmentProblem:
    return EnvironmentProblem(f"the journal cannot be {verb}", code="X031", where=str(path), why=fault.strerror)


def _refused(path: Path, why: str, help: str = "start anew without --resume") -> UsageError:
    return UsageError(f"journal {path}: {why}", code="X030", where="--resume", help=help)


def _taken(path: Path) -> UsageError:
    return _refused(path, "it is there already", f"--resume {path} finishes it")


def _publish(part: Path, path: Path) -> None:
    """Give a file its name, never another's place; durable when this returns."""
    try:
        os.link(part, path)
    except FileExistsError as fault:
        raise _taken(path) from fault
    except OSError:  # a file system without hard links; who creates the same journal at this moment is not seen
        part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
