"""A tree of an upstream's sources that the user names instead of the pinned one. It may be edited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.installation import DoctorCheck, SourceState, SourceTree, Surroundings
from fmha_cli.domain.plan import Edited
from fmha_cli.sources.homes import Home, Known, home_files, home_path, look_at, unfit
from fmha_cli.sources.pins import pin_of
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify


@dataclass(frozen=True)
class OwnTree:
    """The user's tree.

    Attributes:
        root: its folder; ``CubinUpstream.folders`` are below it.
        home: its content, next to the pinned one.
        pinned: the digest of the pinned source, which an unedited tree shares.
    """

    root: Path
    home: Home
    pinned: str

    @property
    def edited(self) -> Edited | None:
        """Its differences from the pinned source; None without any."""
        return self.home.edited

    @property
    def digest(self) -> str:
        """The placeholder for its content in the keys and texts of kernels."""
        return self.pinned if self.edited is None else self.home.digest


def own_files(upstream: CubinUpstream, home: str) -> dict[str, Path]:
    """The files of a user's tree that kernels can include.

    Raises:
        EnvironmentProblem: S105, it lacks a folder; or it cannot be listed.
    """
    root, parts = _parts(upstream, home)
    with as_environment_problem(f"listing the sources in {root}"):
        return home_files(parts)


def own_tree(upstream: CubinUpstream, options: Mapping[str, str], cache_root: Path, notify: Notify) -> OwnTree | None:
    """The tree that the options name; None if they name none.

    Raises:
        UsageError: F007, the accompanying option does not name a known revision.
        EnvironmentProblem: S105, a folder is missing; S106, it is far from the revision whose kernels are known.
    """
    home = options.get(upstream.home_option or "")
    if home is None or upstream.source is None or upstream.known_files is None:
        return None
    known = Known.load(upstream.known_files)
    told = options.get(upstream.as_option or "")
    if told not in (None, known.name):
        where = f"--{upstream.as_option}"
        help = f"{where} {known.name}"
        raise UsageError(f"{where} {told}: no such revision", code="F007", where=where, help=help)
    root, parts = _parts(upstream, home)
    with as_environment_problem(f"reading the sources in {root}"):
        found = OwnTree(root, look_at(open_root(cache_root), parts, known), pin_of(upstream.source).digest)
    if found.edited is None:
        return found
    if told is None and not found.home.near:
        raise unfit(
            f"the {upstream.source} in {root} cannot be built against: its revision is unknown",
            found.home,
            options=(upstream.home_option, upstream.as_option),
        )
    said = f"the {upstream.source} of --{upstream.home_option} {root} is {found.home.notes[0]}"
    notify(Notice(NoticeKind.SOURCE, said))
    return found


def source_tree(upstream: CubinUpstream, here: Surroundings) -> SourceTree:
    """The tree that kernels would be built against. Nothing is fetched."""
    from fmha_cli.sources.store import pinned_tree

    assert upstream.source is not None
    try:
        own = own_tree(upstream, here.options, here.cache_root, lambda notice: here.notify(notice.text))
    except EnvironmentProblem as error:
        return SourceTree.unfit(error)
    if own is not None:
        return SourceTree(
            state=SourceState.PRESENT,
            origin=f"--{upstream.home_option} {own.root}",
            include=str(own.root),
            revision=own.home.known.name,
            digest=own.home.digest,
            edited=own.edited,
            notes=own.home.notes,
        )
    return pinned_tree(upstream.source, here)


def check_tree(upstream: CubinUpstream, here: Surroundings) -> Iterator[DoctorCheck]:
    """Check the tree that the user names, if there is one."""
    if upstream.source is None or upstream.home_option not in here.options:
        return
    yield source_tree(upstream, here).check(upstream.source)


def _parts(upstream: CubinUpstream, home: str) -> tuple[Path, dict[str, Path]]:
    root = home_path(home)
    parts = {name: root / folder for name, folder in upstream.folders.items()}
    missing = [str(upstream.folders[name]) for name, folder in parts.items() if not _holds_any(folder)]
    if missing:
        raise EnvironmentProblem(
            f"{root} lacks {' and '.join(missing)}",
            code="S105",
            where=f"--{upstream.home_option}",
            why="kernels include the headers of " + " and of ".join(map(str, upstream.folders.values())),
            help=f"name a whole checkout of {upstream.source}; `git submodule update --init` brings the parts that are "
            "submodules",
        )
    return root, parts


def _holds_any(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is not None
    except OSError:
        return False
