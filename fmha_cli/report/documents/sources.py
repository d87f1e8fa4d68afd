"""``fmha.sources/1``: pinned third-party sources, and the Composable Kernel tree in effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.installation import SourceState, SourceTree
from fmha_cli.domain.members import Count, Sha256, ShownAs
from fmha_cli.report.document import Document
from fmha_cli.report.table import Column, Table, table_of
from fmha_cli.report.units import counted, size


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    """One pinned third-party source: its origin, its expected hash, and its place on this machine."""

    name: Annotated[str, Column("source")]
    revision: Annotated[str, "the project's version", Column("revision")]
    state: Annotated[SourceState, Column("state")]
    title: str | None = None
    file: Annotated[str | None, "the archive's name in the package index"] = None
    license: Annotated[str | None, Column("license")] = None
    sha256: Annotated[Sha256 | None, "of the archive, as pinned"] = None
    digest: Annotated[Sha256 | None, "of the files that are kept, as pinned"] = None
    path: Annotated[str | None, "its folder; null where it is not here", Column("where")] = None
    bytes: Annotated[Count | None, "of the files that are kept; null where they are not here", Column("size", size)] = (
        None
    )
    backends: Annotated[tuple[str, ...], "which need it"] = ()
    why: Annotated[str | None, "what is wrong with it"] = None


@dataclass(frozen=True, kw_only=True)
class CkTree(SourceTree):
    """The member ``ck``: the tree in effect."""

    origin: Annotated[str | None, "an option, an installed ROCm, or the pinned source"] = None
    include: Annotated[str | None, "the folder that holds ck_tile/"] = None


@dataclass(frozen=True, kw_only=True)
class Sources:
    """sources --json, and what its parts list, fetch, verify and rm print."""

    schema: Literal["fmha.sources/1"] = "fmha.sources/1"
    sources: tuple[SourceRow, ...]
    ck: Annotated[
        SourceTree | None,
        ShownAs(CkTree | None),
        "the Composable Kernel tree that kernels would be built against; null where it was not asked for",
    ]


def sources_document(sources: Iterable[SourceRow], tree: SourceTree | None = None) -> dict[str, Any]:
    """The document of some sources; ``tree`` is the one that kernels would be built against."""
    return to_json(Sources(sources=tuple(sources), ck=tree))


def sources_view(document: Mapping[str, Any]) -> Table:
    """One line for each source tree; below, the Composable Kernel tree in effect."""
    sources = document["sources"]
    details = [f"  {s['name']}: {s['why']}" for s in sources if s["why"]]
    if ck := document["ck"]:
        which = f"{ck['revision']} from {ck['origin']}, headers in {ck['include']}" if ck["include"] else ck["state"]
        details += [f"  Composable Kernel: {which}", *(f"  note: {note}" for note in ck["notes"])]
        details += [f"  {label}: {ck[label]}" for label in ("why", "help") if ck[label]]
    order = ("name", "revision", "state", "license", "bytes", "path")
    placed = [{**source, "path": source["path"] or source["file"]} for source in sources]
    return table_of(SourceRow, placed, counted(len(sources), "source"), details, order)


DOCUMENT = Document(Sources, sources_view, rows="sources")
