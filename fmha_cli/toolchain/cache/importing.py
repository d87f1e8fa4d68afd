"""``fmha cache import``: read entries from a tar archive, compressed or not, without trusting it.

Nothing is extracted by name. A member is read only if its name is one that an export writes, if it is a plain regular
file, and if it occurs once. Every other archive feature (links, devices, sparse files, extended headers) is refused. This
is why the headers are read one by one and not by ``tarfile.open``.

The digests inside an archive detect damage; they do not prove who made it. Its artifacts are programs, so import
only an archive whose programs you would also run.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.members import Digests
from fmha_cli.toolchain.cache.entry import EntryMeta, verify_entry
from fmha_cli.toolchain.cache.exporting import PREFIX
from fmha_cli.toolchain.cache.files import as_environment_problem, fsync_dir, make_private_dir, remove_tree, seal
from fmha_cli.toolchain.cache.layout import ENTRY_FILES, PTX, SCHEMA_VERSION, CacheLayout
from fmha_cli.toolchain.cache.prebuilt import note_imported
from fmha_cli.toolchain.cache.publish import publish_entry
from fmha_cli.toolchain.notice import Notify, log_notice

MAX_IMPORT_BYTES = 4 * 2**30
"""Default limit on the unpacked size of an import, in bytes."""

_XZ = b"\xfd7zXZ\x00"
_XZ_MEMORY = 128 * 2**20
"""The most memory that an archive may make its decoder use, in bytes."""

_BLOCK = 512
_CHUNK = 2**20
_VERSION = re.compile(r"fmha-cache/v(\d{1,9})/")
_MEMBER = re.compile(rf"{PREFIX}/([0-9a-f]{{64}})/({'|'.join(re.escape(name) for name in (*ENTRY_FILES, PTX))})")


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        added: digests that are new in this cache.
        present: digests that already had a sound entry.
    """

    added: Digests
    present: Annotated[Digests, "there was a sound entry already"]


class _RefusedError(Exception):
    """Why an archive is refused."""

    def __init__(self, why: str, code: str = "B021", help: str = "nothing in the cache changed") -> None:
        super().__init__(why)
        self.code = code
        self.help = help


def _other_version(version: int) -> _RefusedError:
    """The refusal of an archive that another version of the package wrote."""
    remedy = "build its content with this version of fmha and export it again"
    return _RefusedError(
        f"it holds entries of version {version}, but this fmha reads version {SCHEMA_VERSION}",
        "B022",
        f"{remedy if version < SCHEMA_VERSION else 'update fmha'}; nothing in the cache changed",
    )


def import_entries(
    layout: CacheLayout, archive: Path, *, max_bytes: int = MAX_IMPORT_BYTES, notify: Notify = log_notice
) -> Imported:
    """Add the entries of an archive to the cache, once all of them are known to be sound.

    Every entry is written below ``tmp/`` and verified there as on every load. They are renamed into place only when all
    have passed. A sound entry that the cache already holds stays. All are noted as prebuilt (``toolchain.cache.prebuilt``).

    Args:
        max_bytes: refuse an archive whose members take more bytes in total.
        notify: called about each damaged entry that was replaced.

    Raises:
        UsageError: B021: the archive cannot be read, is too large, holds a foreign member, lacks a part of an entry, or
            holds a damaged entry. B022: its entries have another version. The message names the member. The cache is
            unchanged.
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
                code=refusal.code,
                where=str(archive),
                why=str(refusal),
                help=refusal.help,
            ) from refusal
        finally:
            remove_tree(home)
    return Imported(
        added=tuple(digest for digest, winner in winners.items() if winner is None),
        present=tuple(digest for digest, winner in winners.items() if winner is not None),
    )


def _unpack_and_verify(archive: Path, home: Path, max_bytes: int) -> dict[str, EntryMeta]:
    """Fill ``home/<digest>/`` for every entry. All entries are sealed and sound when this returns."""
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
        if not isinstance(found, EntryMeta):
            reasons = found.reasons if found else ("it is gone",)
            raise _RefusedError(f"entry {digest} is damaged: {'; '.join(reasons)}")
        fsync_dir(home / digest)
        metas[digest] = found
    return metas


class _Xz(io.RawIOBase):
    """The content of an .xz file, decoded in pieces within ``_XZ_MEMORY``."""

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
            version = _VERSION.match(member.name)
            if version is not None and int(version[1]) != SCHEMA_VERSION:
                raise _other_version(int(version[1]))
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
