"""The lines of a journal: ``Start`` once, then ``Planned`` before a row is dispatched and ``Done`` after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import DecodeError, from_json
from fmha_cli.domain.members import Named, Pattern

JOURNAL = "fmha.journal/1"

Key = Annotated[str, Pattern("^[0-9a-f]{24}$"), "tells the row from all others of the run", Named("key")]


@dataclass(frozen=True, kw_only=True)
class Start:
    """The version and the command line that the journal belongs to, and what was asked for."""

    schema: Literal["fmha.journal/1"] = "fmha.journal/1"
    event: Literal["start"] = "start"
    fmha: str
    argv: tuple[str, ...]
    rows: Annotated[tuple[Key, ...], "every row that was asked for, in order"]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A row is about to be dispatched."""

    schema: Literal["fmha.journal/1"] = "fmha.journal/1"
    event: Literal["planned"] = "planned"
    key: Key


@dataclass(frozen=True, kw_only=True)
class Done:
    """A row is finished."""

    schema: Literal["fmha.journal/1"] = "fmha.journal/1"
    event: Literal["done"] = "done"
    key: Key
    record: Annotated[Mapping[str, Any], Named("record")]


Line = Start | Planned | Done


def line_of(data: Any) -> Line:
    """The journal line in this JSON form.

    Raises:
        DecodeError: the JSON is not a journal line.
    """
    kinds: dict[Any, type[Line]] = {"start": Start, "planned": Planned, "done": Done}
    event = data.get("event") if isinstance(data, Mapping) else None
    if event not in kinds:
        raise DecodeError("not a line of a journal")
    return from_json(kinds[event], data, str(event))
