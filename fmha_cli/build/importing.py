"""``fmha cache import``: entries out of a tar archive, compressed or not, trusting nothing about it.

Nothing is extracted by name. A member is read only if its name is exactly one that an export writes, it is a
plain regular file, and it comes once; every other archive feature (links, devices, sparse files, extended
headers) is refused, which is why the headers are read one by one here and not by ``tarfile.open``.

The digests inside an archive detect damage; they do not prove who made it. Its artifacts are programs: import
only what you would also run.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fmha_cli.build.entry import Damage, EntryMeta, verify_entry
from fmha_cli.build.exporting import PREFIX
from fmha_cli.build.files import as_environment_problem, fsync_dir, make_private_dir, remove_tree, seal
from fmha_cli.build.layout import ENTRY_FILES, CacheLayout
from fmha_cli.build.notice import Notify, log_notice
from fmha_cli.build.prebuilt import note_imported
from fmha_cli.build.publish import publish_entry
from fmha_cli.errors import UsageError

MAX_IMPORT_BYTES = 4 * 2**30
"""Default limit on the unpacked size of an import, in bytes."""

_XZ = b"\xfd7zXZ\x00"
_XZ_MEMORY = 128 * 2**20
"""Memory that an archive may make its decoder take."""

_BLOCK = 512
_CHUNK = 2**20
_MEMBER = re.compile(rf"{PREFIX}/([0-9a-f]{{64}})/({'|'.join(re.escape(name) for name in ENTRY_FILES)})")


@dataclass(frozen=True)
class Imported:
    """What an import brought: digests that are new here, and digests of which there was a sound entry already."""

    added: tuple[str, ...]
    present: tuple[str, ...]


class _RefusedError(Exception):
    """Why an archive is refused."""


def import_entries(
    layout: CacheLayout, archive: Path, *, max_bytes: int = MAX_IMPORT_BYTES, notify: Notify = log_notice
) -> Imported:
    """Bring the entries of an archive into the cache, after all of them were found sound.

    Every entry is written below ``tmp/``, verified there like at a load, and only when all have passed are they
    renamed into place. A sound entry that is here already stays. All are noted as prebuilt (``build.prebuilt``).

    Args:
        max_bytes: refuse an archive whose members are larger in sum.
        notify: hears about a damaged entry that was replaced.

    Raises:
        UsageError: the archive cannot be read, is too large, holds anything else, lacks a part of an entry, or
            an entry in it is damaged. The message names the member; the cache is as it was.
        EnvironmentProblem: the cache cannot be written.
    """
    home = layout.new_tmp()
    with as_environment_problem("importing cache entries"):
        try:
            make_private_dir(home)
            metas = _unpack_and_verify(archive, home, max_bytes)
            winners = {digest: publish_entry(layout, home / digest, digest, notify) for digest in metas}
            for meta in metas.values():
                note_imported(layout, meta)
        except _RefusedError as refusal:
            raise UsageError(
                "the archive was not imported",
                code="B021",
                where=str(archive),
                why=str(refusal),
                help="nothing in the cache changed",
            ) from refusal
        finally:
            remove_tree(home)
    return Imported(
        added=tuple(digest for digest, winner in winners.items() if winner is None),
        present=tuple(digest for digest, winner in winners.items() if winner is not None),
    )


def _unpack_and_verify(archive: Path, home: Path, max_bytes: int) -> dict[str, EntryMeta]:
    """Fill ``home/<digest>/`` for every entry; all are sealed and sound when this returns."""
    metas: dict[str, EntryMeta] = {}
    try:
        file = archive.open("rb")
    except OSError as error:
        raise _RefusedError(f"it cannot be opened: {error.strerror}") from error
    with file:
        compressed = file.read(len(_XZ)) == _XZ
        file.seek(0)
        seen = _unpack(io.BufferedReader(_Xz(file)) if compressed else file, home, max_bytes)
    for digest, names in sorted(seen.items()):
        missing = sorted(set(ENTRY_FILES) - names)
        if missing:
            raise _RefusedError(f"entry {digest} lacks {', '.join(missing)}")
        found = verify_entry(home / digest, digest)
        if isinstance(found, Damage):
            raise _RefusedError(f"entry {digest} is damaged: {'; '.join(found.reasons)}")
        fsync_dir(home / digest)
        metas[digest] = found
    return metas


class _Xz(io.RawIOBase):
    """The content of an .xz file, decoded piece by piece within ``_XZ_MEMORY``."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._decoder.eof:
            more = self._file.read(_CHUNK) if self._decoder.needs_input else b""
            if self._decoder.needs_input and not more:
                raise _RefusedError("its compressed data end too early")
            try:
                data = self._decoder.decompress(more, len(buffer))
            except lzma.LZMAError as error:
                raise _RefusedError(f"it cannot be decompressed: {error}") from error
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0


def _unpack(file: IO[bytes], home: Path, max_bytes: int) -> dict[str, set[str]]:
    """Write the members. Returns the names found for each digest."""
    seen: dict[str, set[str]] = {}
    left = max_bytes
    while (member := _next_member(file)) is not None:
        match = _MEMBER.fullmatch(member.name)
        if match is None:
            raise _RefusedError(f"it holds {member.name[:200]!r}, which no export writes")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise _RefusedError(f"{member.name!r} is not a plain file")
        digest, name = match.groups()
        if name in seen.setdefault(digest, set()):
            raise _RefusedError(f"{member.name!r} comes twice")
        seen[digest].add(name)
        left -= member.size
        if member.size < 0 or left < 0:
            raise _RefusedError(f"it unpacks to more than {max_bytes} bytes")
        make_private_dir(home / digest)
        _copy(file, home / digest / name, member.size)
    return seen


def _next_member(file: IO[bytes]) -> tarfile.TarInfo | None:
    """The next header; None at the archive's end mark."""
    block = file.read(_BLOCK)
    if block == bytes(_BLOCK):
        return None
    if len(block) < _BLOCK:
        raise _RefusedError("it ends without its end mark")
    try:
        return tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, ValueError) as error:
        raise _RefusedError(f"it is not a tar archive: {error}") from error


def _copy(file: IO[bytes], path: Path, size: int) -> None:
    """Write the next ``size`` bytes and skip the padding behind them."""
    with path.open("xb") as out:
        left = size
        while left:
            data = file.read(min(left, _CHUNK))
            if not data:
                raise _RefusedError(f"it ends in the middle of {path.name}")
            out.write(data)
            left -= len(data)
    seal(path)
    file.read(-size % _BLOCK)
