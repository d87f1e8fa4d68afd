"""The revisions of CK whose tables are known, their architecture classes and their data types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fmha_cli.backends.gpu.conditions import known_arch
from fmha_cli.domain.arch import ArchSpec, arch_document
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EmptySelection, InternalError, UsageError
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.suggest import suggest

BASELINE = "baseline"
NAME = "ck_tile"
HOME_OPTION = "ck-home"
AS_OPTION = "ck-as"
"""The options for the user's own tree, and their entries in ``BuildContext.options``."""


@dataclass(frozen=True)
class TreeRevision:
    """A revision of CK.

    Attributes:
        title, date, source: for people to read.
        listed: its tables are known, so its kernels can be listed.
        buildable: its kernels can be built.
        headers: digest of ``include/ck_tile`` (``text_digest``), which identifies it; empty where its sources have not been seen.
        example: digest of upstream's generator, likewise.
    """

    name: str
    title: str
    date: str
    source: str
    listed: bool
    buildable: bool
    headers: str = ""
    example: str = ""
    aliases: Sequence[str] = ()


@dataclass(frozen=True)
class ArchClass:
    """The class to which upstream's generator assigns an architecture. File names end in ``suffix``."""

    name: str
    suffix: str
    source: str


def _common() -> Mapping[str, Any]:
    return arch_document("_ck_tile.json", "fmha.ck-common/1")


@cache
def known_revisions() -> tuple[TreeRevision, ...]:
    """Every revision, in the order of the file that lists them."""
    return tuple(TreeRevision(**row) for row in _common()["revisions"])


@cache
def revisions() -> tuple[TreeRevision, ...]:
    """The revisions whose kernels can be listed, oldest first; the first is the default."""
    return tuple(revision for revision in known_revisions() if revision.listed)


def revision_of(name: str | None, option: str = "ck-rev") -> TreeRevision:
    """The revision with a name or alias, which the user gave with an option; the default revision for None.

    Raises:
        UsageError: F007, no such revision.
    """
    known = {text: revision for revision in revisions() for text in (revision.name, *revision.aliases)}
    if name is None:
        return revisions()[0]
    if name not in known:
        where = f"--{option}"
        raise UsageError(f"{where} {name}: no such revision", code="F007", where=where, help=suggest(name, known))
    return known[name]


def in_revision(row: Mapping[str, Any], revision: str) -> bool:
    """Whether a row belongs to a revision. It may state ``since``, and ``until`` (the first revision without it)."""
    order = [r.name for r in revisions()]
    first, end = order.index(row.get("since", order[0])), order.index(row["until"]) if "until" in row else len(order)
    return revision in order[first:end]


def arch_facts(name: str) -> ArchSpec | None:
    """The facts of an AMD architecture, or None if there are none."""
    arch = known_arch(name)
    return arch if arch is not None and arch.vendor == "amd" else None


def arch_class(arch: ArchSpec, family: Family, revision: str) -> ArchClass | None:
    """The class of an architecture for a family, or None if the revision has no kernels for it."""
    for row in arch.backends.get(NAME, {}).get("classes", ()):
        if family.value in row["families"] and in_revision(row, revision):
            return ArchClass(row["class"], row["suffix"], row["source"])
    return None


def serves(arch: ArchSpec, revision: str) -> bool:
    """Whether a revision has kernels of any family for an architecture."""
    return any(arch_class(arch, family, revision) for family in Family)


def require_arch(arch: ArchSpec, revision: str) -> None:
    """Refuse an architecture for which a revision has no kernels.

    Raises:
        EmptySelection: F006; it names the first revision that has kernels for the architecture.
    """
    if serves(arch, revision):
        return
    having = [r.name for r in revisions() if serves(arch, r.name)]
    raise EmptySelection(
        f"CK-Tile of revision {revision} has no kernel for {arch.name}",
        code="F006",
        where="--ck-rev",
        why=f"the first revision that has one is {having[0]}" if having else "no known revision has one",
        help=f"--ck-rev {having[0]}" if having else "fmha archs",
    )


@cache
def dtypes_of(name: str) -> tuple[DType, DType]:
    """(input, output) types of upstream's type name (``fp8bf16``).

    Raises:
        InternalError: upstream has no such name.
    """
    pair = _common()["dtypes"].get(name)
    if pair is None:
        raise InternalError(f"CK-Tile has no data type {name!r}")
    return DType(pair[0]), DType(pair[1])


@cache
def dtype_names() -> Mapping[tuple[DType, DType], str]:
    """Upstream's type name of each (input, output) pair."""
    return {dtypes_of(name): name for name in _common()["dtypes"]}


@cache
def generated_dtypes(family: Family, revision: str) -> tuple[str, ...]:
    """The type names over which upstream's generator loops for a family, in its order."""
    for row in _common()["generated"]:
        if family.value in row["families"] and in_revision(row, revision):
            return tuple(row["dtypes"])
    return ()
