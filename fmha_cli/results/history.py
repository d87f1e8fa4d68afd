"""Reading a journal of lines (``fmha.journal/2``), as earlier versions wrote them. Whatever is wrong with the file is a ``UsageError``
that says where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.journal import JOURNAL, JournalBuilt, JournalDone, JournalPlanned, Line, Start, line_of
from fmha_cli.domain.reading import NotJson, parsed, regular_bytes
from fmha_cli.report.record import Record
from fmha_cli.results.plans import RunState, refused


def read_history(path: Path) -> RunState:
    """Read a journal without locking it.

    Raises:
        UsageError: the file does not exist, is not a journal, or is damaged before its last line.
    """
    try:
        data = regular_bytes(path)
    except OSError as fault:
        raise refused(path, f"it cannot be read: {fault.strerror}") from fault
    return history_of(path, data)


def history_of(path: Path, data: bytes) -> RunState:
    """The content of a journal. A last line that is cut short or is not JSON is left out.

    Raises:
        UsageError: not a journal of this version, damaged before its last line, or changed since it was written.
    """
    lines = data.split(b"\n")
    torn = lines.pop()
    entries: list[Line] = []
    for number, line in enumerate(lines, 1):
        try:
            value = parsed(line)
        except DecodeError as fault:
            if isinstance(fault, NotJson) and number > 1 and number == len(lines) and not torn:
                lines.pop()
                break
            raise refused(path, f"line {number}: {fault}") from fault
        if number == 1:
            _refuse_other_schema(path, value)
        try:
            entries.append(line_of(value))
        except DecodeError as fault:
            raise refused(path, f"line {number}: {fault}") from fault
    if not entries or not isinstance(start := entries[0], Start):
        raise refused(path, "it does not begin with a start line")
    return _checked(path, start, entries[1:])


def _refuse_other_schema(path: Path, value: Any) -> None:
    schema = value.get("schema") if isinstance(value, dict) else None
    if isinstance(schema, str) and schema.startswith("fmha.") and schema != JOURNAL:
        kind = "an older or newer fmha wrote it" if schema.startswith("fmha.journal/") else "it is not a journal"
        raise refused(path, f"{kind}: its form is {schema[:40]}, this fmha resumes {JOURNAL}")


def _checked(path: Path, start: Start, entries: list[Line]) -> RunState:
    rows = frozenset(start.keys)
    if len(rows) != len(start.rows):
        raise refused(path, "line 1 names a row twice")
    state, done = RunState(start=start), dict[str, Any]()
    for number, entry in enumerate(entries, 2):
        if isinstance(entry, Start):
            raise refused(path, f"line {number} is a second start line")
        if isinstance(entry, JournalBuilt):
            state.built.update(entry.kernels)
            continue
        for key in [entry.key] if isinstance(entry, JournalPlanned) else [row.key for row in entry.rows]:
            if key not in rows or key in done:
                raise refused(path, f"line {number} names a row that is not in the plan, or is already done")
        if isinstance(entry, JournalPlanned):
            state.attempts[entry.key] = state.attempts.get(entry.key, 0) + 1
            continue
        _check_sum(path, number, entry, start)
        done |= {row.key: row.record for row in entry.rows}
    for key, data in done.items():
        try:
            state.records[key] = Record.from_dict(data)
        except DecodeError as fault:
            raise refused(path, f"row {key}: {fault}") from fault
    return state


def _check_sum(path: Path, number: int, entry: JournalDone, start: Start) -> None:
    if not entry.rows or len({row.key for row in entry.rows}) != len(entry.rows) or not entry.belongs_to(start):
        why = f"line {number} has another checksum than its content: it, or the first line, was changed or comes from"
        raise refused(path, f"{why} another journal")
