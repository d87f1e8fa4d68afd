"""``fmha cache export`` and ``import``: carry entries to another machine in a tar archive.

The archive is a plain tar of ``fmha-cache/v1/<digest>/<file>``, with sorted members and no times, owners or
modes, so that equal entries give equal archives. The digests inside detect damage; they do not prove who made
the archive. Its artifacts are programs: import only what you would also run.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fmha_cli.build.entry import Damage, verify_entry
from fmha_cli.build.files import as_environment_problem, fsync_dir, make_private_dir, read_own, remove_tree, write_sealed
from fmha_cli.build.layout import ENTRY_FILES, CacheLayout
from fmha_cli.errors import UsageError

PREFIX = "fmha-cache/v1"
MAX_IMPORT_BYTES = 4 * 2**30
"""Default limit on the unpacked size of an import, in bytes."""
MAX_IMPORT_ENTRIES = 100_000

_MEMBER = re.compile(rf"{PREFIX}/([0-9a-f]{{64}})/({'|'.join(re.escape(name) for name in ENTRY_FILES)})")


@dataclass(frozen=True)
class Exported:
    """What an export wrote: the archive, the digests in it, its bytes, and entries left out with the reasons."""

    archive: Path
    digests: tuple[str, ...]
    size: int
    skipped: tuple[Damage, ...]


@dataclass(frozen=True)
class Imported:
    """What an import brought: digests that are new, and digests that were here already."""

    added: tuple[str, ...]
    present: tuple[str, ...]


def export_entries(layout: CacheLayout, digests: Iterable[str], archive: Path) -> Exported:
    """Write entries into a tar archive, atomically. Damaged entries are left out and reported.

    Raises:
        UsageError: a digest that is not in the cache.
        EnvironmentProblem: the cache cannot be read or the archive not be written.
    """
    chosen, skipped, done = sorted(set(digests)), [], []
    beside = archive.with_name(f".{archive.name}.{uuid.uuid4().hex}")
    with as_environment_problem("exporting cache entries"):
        try:
            with beside.open("xb") as file:
                with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                    for digest in chosen:
                        damage = _export_one(layout, digest, tar)
                        if damage:
                            skipped.append(damage)
                        else:
                            done.append(digest)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(archive)
        finally:
            beside.unlink(missing_ok=True)
        fsync_dir(archive.absolute().parent)
        return Exported(archive, tuple(done), archive.stat().st_size, tuple(skipped))


def _export_one(layout: CacheLayout, digest: str, tar: tarfile.TarFile) -> Damage | None:
    place = layout.entry(digest)
    try:
        found = verify_entry(place, digest)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"there is no cache entry {digest}", code="B020", help="`fmha cache ls` lists them") from error
    if isinstance(found, Damage):
        return found
    for name in ENTRY_FILES:
        data = read_own(place / name)
        member = tarfile.TarInfo(f"{PREFIX}/{digest}/{name}")
        member.size, member.mode = len(data), 0o400
        tar.addfile(member, io.BytesIO(data))
    return None


def import_entries(layout: CacheLayout, archive: Path, *, max_bytes: int = MAX_IMPORT_BYTES) -> Imported:
    """Bring the entries of an archive into the cache: all of them, or none.

    Nothing is extracted by name: a member is read only if its name is exactly one that an export writes, it is
    a regular file, and it comes once. Every entry is written to ``tmp/``, verified there like at a load, and
    only then renamed into place; an entry that is here already is kept as it is.

    Args:
        max_bytes: refuse an archive that holds more.

    Raises:
        UsageError: the archive cannot be read, is too large, holds anything else, lacks a part of an entry, or
            an entry in it is damaged. The message names the member.
        EnvironmentProblem: the cache cannot be written.
    """
    home = layout.new_tmp()
    with as_environment_problem("importing cache entries"):
        try:
            make_private_dir(home)
            with _open_archive(archive, max_bytes) as file:
                digests = _unpack(file, archive, home, max_bytes)
            for digest in digests:
                found = verify_entry(home / digest, digest)
                if isinstance(found, Damage):
                    raise _bad(archive, f"entry {digest} is damaged: {'; '.join(found.reasons)}")
                fsync_dir(home / digest)
            added = [digest for digest in digests if _place(layout, home / digest, digest)]
        finally:
            remove_tree(home)
    return Imported(tuple(added), tuple(digest for digest in digests if digest not in added))


def _open_archive(archive: Path, max_bytes: int) -> IO[bytes]:
    """Open the archive.

    Raises:
        UsageError: it cannot be opened or is larger than anything that could be allowed.
    """
    try:
        file = archive.open("rb")
    except OSError as error:
        raise _bad(archive, f"it cannot be opened: {error.strerror}") from error
    # A header may claim to need as many bytes as the file has; each entry's own overhead is small.
    if os.fstat(file.fileno()).st_size > max_bytes + max_bytes // 8 + 2**20:
        file.close()
        raise _bad(archive, f"it is larger than {max_bytes} bytes")
    return file


def _unpack(file: IO[bytes], archive: Path, home: Path, max_bytes: int) -> list[str]:
    """Write every member below ``home/<digest>/``. Returns the digests in the archive's order."""
    seen: dict[str, set[str]] = {}
    left = max_bytes
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                match = _MEMBER.fullmatch(member.name)
                if match is None:
                    raise _bad(archive, f"it holds {member.name!r}, which no export writes")
                if not member.isreg() or member.issparse():
                    raise _bad(archive, f"{member.name!r} is not a regular file")
                digest, name = match.groups()
                if name in seen.setdefault(digest, set()):
                    raise _bad(archive, f"{member.name!r} comes twice")
                seen[digest].add(name)
                left -= member.size
                if member.size < 0 or left < 0 or len(seen) > MAX_IMPORT_ENTRIES:
                    raise _bad(archive, f"it unpacks to more than {max_bytes} bytes or {MAX_IMPORT_ENTRIES} entries")
                stream = tar.extractfile(member)
                data = stream.read() if stream else b""
                make_private_dir(home / digest)
                write_sealed(home / digest / name, data)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _bad(archive, f"it is not a sound tar archive: {error}") from error
    for digest, names in seen.items():
        missing = sorted(set(ENTRY_FILES) - names)
        if missing:
            raise _bad(archive, f"entry {digest} lacks {', '.join(missing)}")
    return list(seen)


def _place(layout: CacheLayout, entry: Path, digest: str) -> bool:
    """Rename a verified entry into place; False when there is one already."""
    place = layout.entry(digest)
    make_private_dir(place.parent)
    if place.exists():
        return False
    try:
        entry.rename(place)
    except FileExistsError:
        return False
    fsync_dir(place.parent)
    return True


def _bad(archive: Path, why: str) -> UsageError:
    return UsageError(
        "the archive was not imported", code="B021", where=str(archive), why=why, help="nothing in the cache changed"
    )
