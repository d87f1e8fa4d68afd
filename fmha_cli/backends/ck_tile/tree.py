"""Which Composable Kernel tree kernels are built against: one that the user names, ROCm's own, or the pinned one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fmha_cli.backends.ck_tile.revisions import AS_OPTION, BASELINE, HOME_OPTION, known_revisions, revision_of
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.plan import Edited
from fmha_cli.sources.homes import Home, Known, home_files, home_path, look_at, unfit
from fmha_cli.sources.trees import text_digest
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify
from fmha_cli.toolchain.rocm.installed import installed_roots

PINNED = "amd-aiter"
PINNED_CK = Path("aiter_meta", "3rdparty", "composable_kernel")
UNKNOWN = "unknown"
_FILES = "_ck_tile_files.json"
"""The headers of the baseline, each with its digest."""

_EXAMPLE = Path("example", "ck_tile", "01_fmha")
_BELOW_HOME = (
    ".",
    "projects/composablekernel",
    "3rdparty/composable_kernel",
    "aiter_meta/3rdparty/composable_kernel",
    "csrc/composable_kernel",
)
"""Folders that hold CK in a checkout of CK, rocm-libraries, aiter, aiter's sdist or flash-attention."""


@dataclass(frozen=True)
class CkTree:
    """A tree of CK to build against.

    Attributes:
        include: the folder that holds ``ck_tile/``.
        example: upstream's ``example/ck_tile/01_fmha``, or None if the tree lacks it (an installed ROCm).
        generator: the folder that holds ``generate.py``, or None likewise.
        revision: name of the revision.
        origin: what selected this tree: an option, a folder, or the pinned source.
        digest: digest of its headers' text, a part of every cache key.
        notes: trees that were passed over, and anything unusual.
        home: the user's tree as it was looked at; None for a tree of ``fmha``.
        edited: its differences from its revision; None without any.
    """

    include: Path
    example: Path | None
    generator: Path | None
    revision: str
    origin: str
    digest: str
    notes: tuple[str, ...] = ()
    home: Home | None = None
    edited: Edited | None = None


def ck_tree(
    cache_root: Path,
    *,
    home: str | None,
    taken_as: str | None = None,
    offline: bool,
    notify: Notify,
    environ: Mapping[str, str] | None = None,
) -> CkTree:
    """The tree to use: ``home`` if given, else ROCm's own if its revision is known, else the pinned source.

    Args:
        home: the folder that ``--ck-home`` or ``FMHA_CK_HOME`` names: a checkout of CK, rocm-libraries, aiter or
            flash-attention, or a folder of headers. It may be edited.
        taken_as: the revision that ``--ck-as`` names, by whose rules ``home`` is built however much it differs.

    Raises:
        UsageError: F007, ``taken_as`` is not a revision.
        EnvironmentProblem: ``home`` holds no CK (S105) or one that cannot be built against (S106); the pinned
            source cannot be obtained (S101-S104).
    """
    layout = open_root(cache_root)
    if home:
        tree = _find_named(home_path(home), layout, taken_as)
        if tree.edited is not None:
            notify(Notice(NoticeKind.SOURCE, f"the Composable Kernel of {tree.origin} is {'; '.join(tree.notes)}"))
        return tree
    notes: list[str] = []
    for include in _find_installed(os.environ if environ is None else environ):
        tree = _look_at(include, f"the installed ROCm in {include.parent}", layout)
        fault = _unfit(tree)
        if fault is None:
            return tree
        notes.append(f"passing over the CK in {include}: {fault}")
        notify(Notice(NoticeKind.SOURCE, notes[-1]))
    return pinned_tree(cache_root, offline=offline, notify=notify, notes=notes)


def pinned_tree(cache_root: Path, *, offline: bool, notify: Notify, notes: Iterable[str] = ()) -> CkTree:
    """The pinned baseline tree with upstream's generator and examples, regardless of what is installed.

    Raises:
        EnvironmentProblem: it cannot be obtained (S101-S104).
    """
    from fmha_cli.sources.store import (
        fetch_source,  # importing its network modules takes time, and a user's tree needs none
    )

    folder = fetch_source(PINNED, cache_root, offline=offline, notify=notify) / PINNED_CK
    # The digest is the revision's, because fetched() has compared every byte with the pin.
    (baseline,) = (revision for revision in known_revisions() if revision.name == BASELINE)
    example = folder / _EXAMPLE
    return CkTree(
        folder / "include", example, example, BASELINE, f"the pinned source {PINNED}", baseline.headers, tuple(notes)
    )


def example_digest(example: Path) -> str:
    """Digest of upstream's generator.

    Raises:
        OSError: the folder cannot be read.
    """
    return text_digest(example, (".py",))


def include_below(home: Path) -> Path | None:
    """The folder of headers in a checkout, or the folder itself; None if neither contains ``ck_tile``."""
    for below in _BELOW_HOME:
        for folder in (home / below / "include", home / below):
            if (folder / "ck_tile" / "core.hpp").is_file():
                return Path(os.path.normpath(folder))
    return None


def watched_files(home: str) -> dict[str, Path]:
    """The headers of a tree that the user names, by their names.

    Raises:
        EnvironmentProblem: S105, there are none; or they cannot be listed.
    """
    include = _include(home_path(home))
    with as_environment_problem(f"listing the headers in {include}"):
        return home_files({"": include / "ck_tile"})


def load_known() -> Known:
    """The headers of the baseline.

    Raises:
        InternalError: the file that lists them is malformed.
    """
    return Known.load(_FILES)


def _include(home: Path) -> Path:
    include = include_below(home)
    if include is None:
        raise EnvironmentProblem(
            f"{home} holds no Composable Kernel",
            code="S105",
            where=f"--{HOME_OPTION}",
            why="looked for ck_tile/core.hpp below include/ of " + ", ".join(_BELOW_HOME),
            help="name a checkout of composable_kernel, rocm-libraries, aiter or flash-attention, or its include folder",
        )
    return include


def _find_named(home: Path, layout: CacheLayout, taken_as: str | None) -> CkTree:
    """The user's tree: a known revision, or an edited copy of one; ``taken_as`` names the revision where that is unsure."""
    told = None if taken_as is None else revision_of(taken_as, AS_OPTION)
    if told is not None and not told.buildable:
        raise EnvironmentProblem(
            f"--{AS_OPTION} {taken_as}: the kernels of this revision are not described well enough to be built",
            code="S106",
            where=f"--{AS_OPTION}",
            help=f"--{AS_OPTION} {BASELINE} builds the tree by the rules of the {BASELINE} revision",
        )
    include = _include(home)
    tree = _look_at(include, f"--{HOME_OPTION} {home}", layout)
    fault, found = _unfit(tree), tree.home
    if fault is None or found is None:
        return tree
    if told is not None or (found.near and tree.revision == UNKNOWN):
        return replace(tree, revision=BASELINE, edited=found.edited, notes=(*found.notes, *tree.notes))
    names = "; ".join(
        f"{r.name} ({r.date}, {r.headers[:12]}…{'' if r.buildable else ', cannot be built against'})"
        for r in known_revisions()
        if r.headers
    )
    raise unfit(
        f"the Composable Kernel in {include} cannot be built against: {fault}",
        found,
        options=(HOME_OPTION, AS_OPTION),
        more=f"; known revisions: {names}",
    )


def _unfit(tree: CkTree) -> str | None:
    """Why kernels cannot be built against a tree, or None if they can."""
    for revision in known_revisions():
        if revision.headers == tree.digest:
            return None if revision.buildable else f"it is {revision.title}, whose kernels are not described here"
    return f"its revision is unknown (headers {tree.digest[:12]}…)"


def _look_at(include: Path, origin: str, layout: CacheLayout) -> CkTree:
    """A tree with its revision, which is ``unknown`` if no known revision matches."""
    with as_environment_problem(f"reading the headers in {include}"):
        found = look_at(layout, {"": include / "ck_tile"}, load_known())
    revision = next((known for known in known_revisions() if known.headers == found.digest), None)
    example = include.parent / _EXAMPLE
    notes: tuple[str, ...] = ()
    generator = example if (example / "generate.py").is_file() else None
    if generator is not None and revision is not None and revision.example:
        with as_environment_problem(f"reading the generator in {generator}"):
            if example_digest(generator) != revision.example:
                notes = (f"the generator in {generator} is not the one of the revision {revision.name}",)
    name = revision.name if revision else UNKNOWN
    where = example if example.is_dir() else None
    return CkTree(include, where, generator, name, origin, found.digest, notes, found)


def _find_installed(environ: Mapping[str, str]) -> list[Path]:
    """Header folders of installed ROCms that contain CK, without repeats."""
    return [root / "include" for root in installed_roots(environ) if (root / "include/ck_tile/core.hpp").is_file()]
