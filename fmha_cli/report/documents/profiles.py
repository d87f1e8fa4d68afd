"""``fmha.profiles/1``: named sets of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.members import Count
from fmha_cli.report.document import Document
from fmha_cli.report.table import Column, Table, table_of
from fmha_cli.report.units import counted


@dataclass(frozen=True, kw_only=True)
class ProfileRow:
    """A named set of kernels of a backend."""

    name: Annotated[str, Column("profile")]
    aliases: Annotated[tuple[str, ...], Column("aliases")] = ()
    backend: Annotated[str, Column("backend")]
    title: Annotated[str, Column("title")]
    archs: Annotated[tuple[str, ...], Column("archs")] = ()
    kernels: Annotated[Count | None, "null: not counted", Column("kernels", number=True)] = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class Profiles:
    """profiles --json."""

    schema: Literal["fmha.profiles/1"] = "fmha.profiles/1"
    profiles: tuple[ProfileRow, ...]


def profiles_document(profiles: Iterable[ProfileRow]) -> dict[str, Any]:
    """The document of some profiles."""
    return to_json(Profiles(profiles=tuple(profiles)))


def profiles_view(document: Mapping[str, Any]) -> Table:
    """One line for each profile."""
    return table_of(ProfileRow, document["profiles"], counted(len(document["profiles"]), "profile"))


DOCUMENT = Document(Profiles, profiles_view, rows="profiles")
