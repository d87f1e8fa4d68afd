"""The pinned sources in the cache: fetch one, find it again, verify it, remove it.

A source is unpacked under ``tmp/`` and renamed to ``sources/<name>-<version>/`` when it is complete and verified, so
it is either complete or absent. Its manifest lists every file with its digest; each use checks the tree.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.installation import NOT_FETCHED, SourceState, SourceTree, Surroundings, import_modules
from fmha_cli.sources.faults import FetchError, UnsafeArchive, WrongContent
from fmha_cli.sources.index import SourcePlace, download, places
from fmha_cli.sources.pins import Pin, pin_of
from fmha_cli.sources.pip_settings import PipSettings, read_settings
from fmha_cli.sources.trees import differences, hash_tree, intact, read_manifest, tree_digest, write_manifest
from fmha_cli.sources.unpack import unpack_tar, unpack_zip
from fmha_cli.sources.web import NoRanges, RangedFile, Web
from fmha_cli.system.files import sync_folder
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir, remove_tree
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.lock import WaitingLock
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify

RANGE_SLACK = 4 << 20
"""Bytes that may be read of a wheel beyond the kept members: its directory, and the bytes between the members."""

_HELP = (
    "check the package index of pip's configuration (pip config list), or put the file into a folder that "
    "PIP_FIND_LINKS names, or fetch it where there is a network and copy the cache's folder sources/"
)
_INSTALL_HELP = (
    "pip install 'fmha[sources]', which the extras cuda and rocm include; or copy the cache's folder sources/"
)


@dataclass(frozen=True)
class SourceStanding:
    """One source in the cache: its folder, its state, and its faults."""

    pin: Pin
    path: Path
    state: SourceState
    faults: tuple[str, ...] = ()


def fetch_source(
    name: str,
    cache_root: Path,
    *,
    offline: bool,
    notify: Notify,
    looking: bool = False,
) -> Path:
    """The folder of one pinned source, fetched now if it is not in the cache.

    Args:
        offline: the user forbids fetching.
        looking: the caller only looks at what is here, and fetches nothing.

    Raises:
        UsageError: no such source.
        EnvironmentProblem: it is not here and fetching is forbidden (S101) or fails (S102, S103, S104), or the
            cache cannot be written. Nothing half-written is left in its place.
    """
    pin, layout = pin_of(name), open_root(cache_root)
    return fetch_pin(pin, layout, offline=offline, notify=notify, looking=looking)


def fetch_pin(
    pin: Pin,
    layout: CacheLayout,
    *,
    offline: bool,
    notify: Notify,
    settings: PipSettings | None = None,
    looking: bool = False,
) -> Path:
    """As :func:`fetch_source`, for a pin. ``settings`` say where packages come from; by default pip's configuration does."""
    place = layout.sources / pin.folder
    with as_environment_problem(f"looking at the source {pin.name}"):
        if intact(pin, layout):
            return place
    if offline or looking:
        state = "is damaged in the cache" if place.exists() else "is not in the cache"
        what = f"the source {pin.name} {pin.archive.version} {state}"
        what, why = (
            (what, "nothing is fetched while this machine is checked")
            if looking
            else (f"{what}, and fetching is forbidden", "--offline (or FMHA_OFFLINE) is set")
        )
        help = f"run `fmha sources fetch {pin.name}` once where the package index can be reached"
        raise EnvironmentProblem(what, code="S101", where=str(place), why=why, help=help)
    lock = WaitingLock(layout.lock(f"source-{pin.folder}"), f"the fetch of {pin.name}", notify)
    with as_environment_problem(f"fetching the source {pin.name}"):
        with lock.hold(lambda: not intact(pin, layout)):
            if not intact(pin, layout):
                _fetch(pin, layout, notify, settings)
    return place


def standing(pin: Pin, layout: CacheLayout, *, deep: bool = False) -> SourceStanding:
    """The state of one source in the cache.

    Args:
        deep: hash every file again, even if its time and size have not changed since the last look.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    place = layout.sources / pin.folder
    with as_environment_problem(f"looking at the source {pin.name}"):
        if not place.exists():
            return SourceStanding(pin, place, SourceState.MISSING)
        if not deep and intact(pin, layout):
            return SourceStanding(pin, place, SourceState.PRESENT)
        manifest = read_manifest(place)
        if manifest is None:
            return SourceStanding(pin, place, SourceState.DAMAGED, ("its manifest is missing or damaged",))
        found = hash_tree(place)
        faults = differences(manifest[1], found)
        if not faults and tree_digest(found) != pin.digest:
            faults = ("its manifest does not list the pinned content",)
    return SourceStanding(pin, place, SourceState.DAMAGED if faults else SourceState.PRESENT, faults)


def pinned_tree(name: str, here: Surroundings) -> SourceTree:
    """The pinned source that kernels come from or are built against. Nothing is fetched."""
    pin = pin_of(name)
    found = standing(pin, open_root(here.cache_root))
    if found.state is not SourceState.PRESENT:
        damaged = found.state is SourceState.DAMAGED
        why = "the pinned source in the cache is damaged" if damaged else NOT_FETCHED
        return SourceTree(state=SourceState.MISSING, why=why, help=f"fmha sources fetch {pin.name}")
    return SourceTree(
        state=SourceState.PRESENT,
        origin=f"the pinned source {pin.name}",
        include=str(found.path),
        revision=pin.archive.version,
        digest=pin.digest,
    )


def remove(pin: Pin, layout: CacheLayout) -> bool:
    """Remove a source from the cache; False if it is absent. It is renamed first, so no process sees half of it.

    Raises:
        EnvironmentProblem: it cannot be moved.
    """
    with as_environment_problem(f"removing the source {pin.name}"):
        away = _move_away(layout.sources / pin.folder, layout)
    if away is not None:
        remove_tree(away)
    return away is not None


def _move_away(place: Path, layout: CacheLayout) -> Path | None:
    away = layout.new_tmp()
    make_private_dir(away.parent)
    try:
        place.rename(away)
    except FileNotFoundError:
        return None
    return away


def _fetch(pin: Pin, layout: CacheLayout, notify: Notify, settings: PipSettings | None) -> None:
    """Try every place that offers the archive until one gives the pinned content. Raises EnvironmentProblem: none does, or
    S108: a package is missing; OSError: the cache cannot be written."""
    for module, package in (("pypi_simple", "pypi-simple"), ("requests", "requests")):
        import_modules([module], f"{package}, which downloads sources,", "S108", _INSTALL_HELP)
    notify(Notice(NoticeKind.SOURCE, f"fetching {pin.archive.file} from the package index"))
    web = Web(settings or read_settings())
    faults: list[FetchError] = []
    try:
        for place in places(pin.archive, web):
            if isinstance(place, FetchError):
                faults.append(place)
                continue
            work = layout.new_tmp()
            make_private_dir(work)
            try:
                _unpack(pin, place, work, web, notify)
                _publish(pin, work / "tree", layout)
                return
            except FetchError as fault:
                faults.append(fault)
            finally:
                remove_tree(work)
    finally:
        web.close()
    raise _problem(pin, faults)


def _unpack(pin: Pin, place: SourcePlace, work: Path, web: Web, notify: Notify) -> None:
    """Bring the kept parts to ``work/tree``. Raises FetchError: this place cannot provide them."""
    tree = work / "tree"
    make_private_dir(tree)

    def came(total: int, count: int) -> None:
        notify(Notice(NoticeKind.FETCHED, "", done=count, total=total))

    if pin.archive.is_wheel and place.url is not None and _by_ranges(pin, place, tree, web, partial(came, pin.bytes)):
        came(pin.bytes, pin.bytes)  # compressed parts are smaller
        return
    file = download(pin.archive, place, work / pin.archive.file, web, partial(came, pin.archive.bytes))
    if pin.archive.is_wheel:
        with file.open("rb") as opened:
            unpack_zip(pin, opened, tree)
    else:
        unpack_tar(pin, file, tree)
    file.unlink()


def _by_ranges(pin: Pin, place: SourcePlace, tree: Path, web: Web, came: Callable[[int], None]) -> bool:
    """Read the kept members alone; False when the server sends whole files only."""
    raw = RangedFile(web, place.url or "", pin.archive.bytes, pin.bytes + RANGE_SLACK, came)
    try:
        unpack_zip(pin, io.BufferedReader(raw), tree)
    except NoRanges:
        return False
    return True


def _publish(pin: Pin, tree: Path, layout: CacheLayout) -> None:
    """Check the unpacked tree against the pin, add its manifest, and rename it into place. Raises WrongContent: its
    content differs from the pin; OSError: the cache cannot be written.
    """
    found = hash_tree(tree)
    if tree_digest(found) != pin.digest:
        size = sum(size for _, size in found.values())
        raise WrongContent(
            f"{pin.archive.file} unpacks to {len(found)} files of {size} bytes with the digest {tree_digest(found)}, "
            f"not to the pinned {pin.files} of {pin.bytes} with {pin.digest}"
        )
    write_manifest(tree, {**to_json(pin.archive), "name": pin.name, "license": pin.license}, found)
    make_private_dir(layout.sources)
    place = layout.sources / pin.folder
    # Whatever is there is damaged, or it would have been used.
    damaged = _move_away(place, layout)
    try:
        tree.rename(place)
    except OSError:
        # Without a lock another process may have been quicker.
        if not intact(pin, layout):
            raise
    sync_folder(layout.sources)
    if damaged is not None:
        remove_tree(damaged)


def _problem(pin: Pin, faults: list[FetchError]) -> EnvironmentProblem:
    """The error of a failed fetch. The most serious fault decides the code, and every fault is named."""
    kinds = {type(fault) for fault in faults}
    code, what = "S102", "cannot be fetched"
    if UnsafeArchive in kinds:
        code, what = "S104", "was refused: its archive is not safe to unpack"
    elif WrongContent in kinds:
        code, what = "S103", "was refused: it is not the pinned content"
    told = "; ".join(dict.fromkeys(map(str, faults))) or "no package index is configured (no-index)"
    return EnvironmentProblem(
        f"the source {pin.name} {pin.archive.version} {what}", code=code, where=pin.archive.file, why=told, help=_HELP
    )
