"""``fmha cache import``: read entries from a tar archive, compressed or not, without trusting it.

Nothing is extracted by name. A member is read only if its name is one that an export writes, if it is a plain regular
file, and if it occurs once. Every other archive feature (links, devices, sparse files, extended headers) is refused. This
is why the headers are read one by one and not by ``tarfile.open``.

The digests inside an archive detect damage; they do not prove who made it. An archive with host code is therefore
refused unless the user trusts its maker (``toolchain.cache.origin``), and every entry keeps its origin.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.members import Digests, Sha256, ShownAs
from fmha_cli.domain.regular import open_regular
from fmha_cli.system.files import sync_folder
from fmha_cli.toolchain.cache.entry import EntryMeta, verify_entry
from fmha_cli.toolchain.cache.exporting import PREFIX
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir, remove_tree, seal
from fmha_cli.toolchain.cache.key import BuildKind
from fmha_cli.toolchain.cache.layout import ARTIFACT, ENTRY_FILES, PTX, SCHEMA_VERSION, CacheLayout
from fmha_cli.toolchain.cache.origin import ArchiveOrigin, Code, code_of, forget_origin, note_origin, origin_of
from fmha_cli.toolchain.cache.prebuilt import note_imported
from fmha_cli.toolchain.cache.publish import intact_entry, publish_entry
from fmha_cli.toolchain.notice import Notify, log_notice

MAX_IMPORT_BYTES = 4 * 2**30
"""Default limit on the unpacked size of an import, in bytes."""

_XZ = b"\xfd7zXZ\x00"
_XZ_MEMORY = 128 * 2**20
"""The most memory that an archive may make its decoder use, in bytes."""

_BLOCK = 512
_CHUNK = 2**20
_PADDING = 2**20
"""The most bytes behind the end mark; tar writes records of 10 KiB by default."""
_NAMED = 3
"""Entries that a refusal names."""
_VERSION = re.compile(r"fmha-cache/v(\d{1,9})/")
_MEMBER = re.compile(rf"{PREFIX}/([0-9a-f]{{64}})/({'|'.join(re.escape(name) for name in (*ENTRY_FILES, PTX))})")


@dataclass(frozen=True)
class Held:
    """One entry of an archive."""

    digest: Sha256
    kind: Annotated[str, ShownAs(BuildKind)]
    name: str
    arch: str
    toolchain: Annotated[str, "compiler version in the key"]
    code: Annotated[Code, "who executes it"]


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        sha256: digest of the archive.
        held: the archive's entries, sorted by digest.
        added: digests that are new in this cache; of a dry run, the ones that would be added.
        present: digests that already had a sound entry, which stays.
        dry_run: nothing was changed.
    """

    sha256: Sha256
    held: tuple[Held, ...]
    added: Digests
    present: Annotated[Digests, "there was a sound entry already"]
    dry_run: bool


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
    layout: CacheLayout,
    archive: Path,
    *,
    trust: bool = False,
    dry_run: bool = False,
    max_bytes: int = MAX_IMPORT_BYTES,
    notify: Notify = log_notice,
) -> Imported:
    """Add the entries of an archive to the cache, once all of them are known to be sound.

    Every entry is written below ``tmp/`` and verified there as on every load. They are renamed into place only when all
    have passed. A sound entry that the cache already holds stays. All are noted as prebuilt (``toolchain.cache.prebuilt``).

    Args:
        trust: take host code too, which runs with the user's rights when it is loaded.
        dry_run: verify and list only.
        max_bytes: refuse an archive whose members take more bytes in total.
        notify: called about each damaged entry that was replaced.

    Raises:
        UsageError: B021: the archive cannot be read, is too large, holds a foreign member, lacks a part of an entry, or
            holds a damaged entry. B022: its entries have another version. B023: it holds host code, without
            ``trust``. The message names the member. The cache is unchanged.
        EnvironmentProblem: the cache cannot be written.
    """
    home = layout.new_tmp()
    with as_environment_problem("importing cache entries"):
        try:
            make_private_dir(home)
            sha256, metas = _unpack_and_verify(archive, home, max_bytes)
            held = tuple(_hold_back(meta, code_of(home / digest / ARTIFACT)) for digest, meta in metas.items())
            if dry_run:
                present = {digest for digest in metas if intact_entry(layout, digest)}
            else:
                _ask_trust(held, trust)
                origins = {one.digest: ArchiveOrigin(archive.name, sha256, time.time_ns(), one.code) for one in held}
                present = {digest for digest in metas if not _add_entry(layout, home / digest, origins[digest], notify)}
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
        sha256=sha256,
        held=held,
        added=tuple(digest for digest in metas if digest not in present),
        present=tuple(sorted(present)),
        dry_run=dry_run,
    )


def _hold_back(meta: EntryMeta, code: Code) -> Held:
    kind, name, arch, toolchain = (str(meta.parts[part]) for part in ("kind", "name", "arch", "toolchain_version"))
    return Held(meta.digest, kind, name, arch, toolchain, code)


def _ask_trust(held: tuple[Held, ...], trust: bool) -> None:
    host = [one for one in held if one.code is Code.HOST]
    if host and not trust:
        some = ", ".join(f"{one.digest[:12]} ({one.kind} {one.name})" for one in host[:_NAMED])
        more = f" and {len(host) - _NAMED} more" if len(host) > _NAMED else ""
        raise _RefusedError(
            f"{len(host)} of its {len(held)} entries are host code, which runs with your rights: {some}{more}",
            "B023",
            "if you trust its maker, import it with --trust; --dry-run lists all of it; nothing in the cache changed",
        )


def _add_entry(layout: CacheLayout, entry: Path, origin: ArchiveOrigin, notify: Notify) -> bool:
    """Put an entry into the cache with its origin; False if a sound one is there already, which keeps its own."""
    digest = entry.name
    before = origin_of(layout, digest)
    note_origin(layout, digest, origin)
    if publish_entry(layout, entry, digest, notify) is None:
        return True
    if before is None:
        forget_origin(layout, digest)
    else:
        note_origin(layout, digest, before)
    return False


def _unpack_and_verify(archive: Path, home: Path, max_bytes: int) -> tuple[str, dict[str, EntryMeta]]:
    """Fill ``home/<digest>/`` for every entry. All entries are sealed and sound when this returns.

    Returns:
        The archive's digest and its entries.
    """
    metas: dict[str, EntryMeta] = {}
    try:
        file = open_regular(archive)
    except OSError as error:
        raise _RefusedError(f"it cannot be opened: {error.strerror}") from error
    with file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        compressed = file.read(len(_XZ)) == _XZ
        file.seek(0)
        stream = io.BufferedReader(_Xz(file)) if compressed else file
        seen = _unpack(stream, home, max_bytes)
        _read_to_the_end(stream)
    for digest, names in sorted(seen.items()):
        missing = sorted(set(ENTRY_FILES) - names)
        if missing:
            raise _RefusedError(f"entry {digest} lacks {', '.join(missing)}")
        found = verify_entry(home / digest, digest)
        if not isinstance(found, EntryMeta):
            reasons = found.reasons if found else ("it is gone",)
            raise _RefusedError(f"entry {digest} is damaged: {'; '.join(reasons)}")
        sync_folder(home / digest)
        metas[digest] = found
    return sha256, metas


def _read_to_the_end(file: IO[bytes]) -> None:
    """Behind its end mark, a tar archive holds zeros that fill its last record, and a compressed one its own checks."""
    left = _PADDING
    while data := file.read(_CHUNK):
        left -= len(data)
        if left < 0 or any(data):
            raise _RefusedError("it goes on behind its end mark")


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
                raise _RefusedError("its compressed data end too early: it is cut short")
            try:
                data = self._decoder.decompress(more, len(buffer))
            except lzma.LZMAError as error:
                raise _RefusedError(f"it cannot be decompressed: {error}") from error
            if data:
                buffer[: len(data)] = data
                return len(data)
        if self._decoder.unused_data or self._file.read(1):
            raise _RefusedError("something follows its compressed data")
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
