"""``Start``, the invocation of a run and its rows; and the other lines of a journal as earlier versions wrote it: ``JournalBuilt`` after
the builds of each session, ``JournalPlanned`` before a row is dispatched and ``JournalDone`` after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.members import Hex64, Named, Pattern

JOURNAL = "fmha.journal/2"

Key = Annotated[str, Pattern("^[0-9a-f]{24}$"), "tells the row from all others of the run", Named("key")]


@dataclass(frozen=True, kw_only=True)
class JournalRow:
    """One requested row; ``what`` names its problem, kernel, device and cache mode for people."""

    key: Key
    what: str


@dataclass(frozen=True, kw_only=True)
class Start:
    """The invocation that a run belongs to, and its request. Journals of lines began with it.

    ``parts`` holds everything except the rows that could change a verdict or a time, by its name for people. A value
    that begins with ``sha256:`` is a digest of something longer.
    """

    schema: Literal["fmha.journal/2"] = "fmha.journal/2"
    event: Literal["start"] = "start"
    fmha: str
    argv: tuple[str, ...]
    run: Annotated[str, Pattern("^[0-9a-f]{32}$"), "id of the run, which its records carry"]
    started: Annotated[str, "ISO 8601 time in UTC"]
    parts: Mapping[str, str]
    rows: Annotated[tuple[JournalRow, ...], "every row that was asked for, in order"]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of the rows, in order."""
        return tuple(row.key for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class JournalBuilt:
    """Digest of each kernel of a session -> digest of the key of its build, which covers sources, flags and compiler.

    Null: the kernel could not be built.
    """

    schema: Literal["fmha.journal/2"] = "fmha.journal/2"
    event: Literal["built"] = "built"
    kernels: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class JournalPlanned:
    """A row is about to be dispatched."""

    schema: Literal["fmha.journal/2"] = "fmha.journal/2"
    event: Literal["planned"] = "planned"
    key: Key


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A row and its record."""

    key: Key
    record: Annotated[Mapping[str, Any], Named("record")]


@dataclass(frozen=True, kw_only=True)
class JournalDone:
    """Rows are finished: one, or two whose timed launches were interleaved and which mean nothing without each other."""

    schema: Literal["fmha.journal/2"] = "fmha.journal/2"
    event: Literal["done"] = "done"
    rows: tuple[Finished, ...]
    sha256: Annotated[Hex64, "over the start line and the rows, so that no other journal's line passes for this one's"]

    def belongs_to(self, start: Start) -> bool:
        """Whether the line was written into the journal that begins with ``start``, and not changed since."""
        return self.sha256 == digest_of([digest_of(to_json(start)), [to_json(row) for row in self.rows]])


Line = Start | JournalBuilt | JournalPlanned | JournalDone


def line_of(data: Any) -> Line:
    """The journal line in this JSON form.

    Raises:
        DecodeError: the JSON is not a journal line.
    """
    kinds: dict[Any, type[Line]] = {
        "start": Start,
        "built": JournalBuilt,
        "planned": JournalPlanned,
        "done": JournalDone,
    }
    event = data.get("event") if isinstance(data, Mapping) else None
    kind = kinds.get(event) if isinstance(event, str) else None
    if kind is None:
        raise DecodeError("not a line of a journal")
    return from_json(kind, data, str(event))
