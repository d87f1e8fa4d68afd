"""The pins: archives of the package index and the parts of them that are kept (``arch_specs/_sources.json``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fmha_cli.domain.arch import arch_root
from fmha_cli.domain.errors import InternalError, UsageError
from fmha_cli.domain.suggest import suggest

PINS_FILE = "_sources.json"
PINS_SCHEMA = "fmha.source-pins/1"


@dataclass(frozen=True)
class Archive:
    """One file of the package index.

    Attributes:
        project, version, file: as the index calls them.
        sha256: of the whole file. bytes: its exact length.
    """

    project: str
    version: str
    file: str
    sha256: str
    bytes: int

    @property
    def is_wheel(self) -> bool:
        """A zip file, whose members can be read one by one."""
        return self.file.endswith(".whl")


@dataclass(frozen=True)
class Pin:
    """One source: the parts of an archive that are kept, and their expected content.

    Attributes:
        name: the name in ``fmha sources``.
        root: prefix that every kept member has, and that is dropped.
        take: members below ``root`` that are kept: a file, or a folder with a final slash.
        files, bytes, digest: number, total size and tree digest (``manifest.tree_digest``) of what is kept.
        license: SPDX expression; notice: kept files that hold its text.
        backends: which backends need it. purpose: its use, in a line. title: its content. source: where the pin comes
            from.
    """

    name: str
    archive: Archive
    root: str
    take: tuple[str, ...]
    files: int
    bytes: int
    digest: str
    license: str
    notice: tuple[str, ...]
    backends: tuple[str, ...]
    purpose: str
    title: str
    source: str

    @property
    def folder(self) -> str:
        """Name of its directory under ``sources/`` of the cache."""
        return f"{self.name}-{self.archive.version}"

    def find_place(self, member: str) -> str | None:
        """Where a member of the archive goes, below the source's folder; None for one that is not kept."""
        if not member.startswith(self.root):
            return None
        rest = member[len(self.root) :]
        wanted = any(rest.startswith(part) if part.endswith("/") else rest == part for part in self.take)
        return rest if wanted else None


def pins() -> Mapping[str, Pin]:
    """Every pinned source by name.

    Raises:
        InternalError: the file of pins is malformed.
    """
    return pins_from_json(arch_root().joinpath(PINS_FILE).read_text("utf-8"))


def pins_from_json(text: str) -> Mapping[str, Pin]:
    """Pins from the text of an ``fmha.source-pins/1`` file.

    Raises:
        InternalError: malformed text, a missing or unknown member.
    """
    where = f"arch_specs/{PINS_FILE}"
    try:
        data = json.loads(text)
        if data["schema"] != PINS_SCHEMA:
            raise KeyError("schema")
        archives = {name: Archive(**fields) for name, fields in data["archives"].items()}
        found = [_pin(name, fields, archives) for name, fields in data["sources"].items()]
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise InternalError(f"{where} is not {PINS_SCHEMA}: {fault}", where=where) from fault
    return MappingProxyType({pin.name: pin for pin in found})


def pin_of(name: str) -> Pin:
    """One pin.

    Raises:
        UsageError: no such source, with near names.
    """
    known = pins()
    if name not in known:
        raise UsageError(f"source {name}: no such source", code="S100", where=name, help=suggest(name, tuple(known)))
    return known[name]


def _pin(name: str, fields: Mapping[str, Any], archives: Mapping[str, Archive]) -> Pin:
    lists = {key: tuple(fields[key]) for key in ("take", "notice", "backends")}
    return Pin(name=name, **{**fields, **lists, "archive": archives[fields["archive"]]})
