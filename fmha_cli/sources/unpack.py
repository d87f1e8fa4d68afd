"""Extract the kept parts of an archive, and nothing that would be written outside the folder."""

from __future__ import annotations

import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from fmha_cli.sources.faults import UnsafeArchive, WrongContent
from fmha_cli.sources.pins import Pin

ARCHIVE_LIMIT = 4 << 30
"""Bytes that an archive may unpack to in all, parts that are not kept included."""

_CHUNK = 1 << 20
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OverflowError)
"""Exceptions that ``zipfile`` raises on damaged input, found by changing bytes at random."""

_LINK_BITS = 0o170000
_REGULAR_BITS = (0, 0o100000)


def unpack_tar(pin: Pin, file: Path, into: Path) -> None:
    """Write the kept members of a tar file below an empty folder.

    Every member's name is checked, kept or not; kept ones must be regular files. Modes, owners and times of the
    archive are not taken over.

    Raises:
        UnsafeArchive: a name that leaves the folder, a link or device among the kept members, two members of
            one name, or more files or bytes than pinned.
        WrongContent: the file is not a sound archive.
        OSError: the folder cannot be written.
    """
    room = _Room(pin, into)
    try:
        with tarfile.open(file, "r|*") as archive:
            for member in archive:
                room.see(member.name, member.size)
                kept = pin.find_place(member.name)
                if kept is None or member.isdir():
                    continue
                _refuse_by_filter(member, into)
                if not member.isreg():
                    raise UnsafeArchive(f"{pin.archive.file}: {member.name} is not a regular file")
                source = archive.extractfile(member)
                if source is None:
                    raise WrongContent(f"{pin.archive.file}: {member.name} has no content")
                room.write(kept, member.size, source)
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise WrongContent(f"{pin.archive.file} is not a sound tar archive: {error}") from error


def unpack_zip(pin: Pin, file: IO[bytes], into: Path) -> None:
    """Write the kept members of a zip file (a wheel) below an empty folder, reading those members only.

    Raises:
        UnsafeArchive, WrongContent, OSError: as ``unpack_tar``; a member's CRC is checked.
        FetchError: whatever reading ``file`` raises.
    """
    room = _Room(pin, into)
    try:
        with zipfile.ZipFile(file) as archive:
            wanted = []
            for info in archive.infolist():
                room.see(info.filename, info.file_size)
                kept = pin.find_place(info.filename)
                if kept is not None and not info.is_dir():
                    if (info.external_attr >> 16) & _LINK_BITS not in _REGULAR_BITS:
                        raise UnsafeArchive(f"{pin.archive.file}: {info.filename} is not a regular file")
                    wanted.append((kept, info))
            for kept, info in sorted(wanted, key=lambda pair: pair[1].header_offset):
                with archive.open(info) as source:
                    room.write(kept, info.file_size, source)
    except _BAD_ZIP as error:
        raise WrongContent(f"{pin.archive.file} is not a sound zip archive: {error}") from error


class _Room:
    """The counts of unpacked files and bytes, and the limits of the pin."""

    def __init__(self, pin: Pin, into: Path) -> None:
        self._pin, self._into = pin, into
        self._names: set[str] = set()
        self._seen = self._bytes = 0

    def see(self, name: str, size: int) -> None:
        """Check a member's name and count its size, kept or not. Raises UnsafeArchive: a name that leaves the folder,
        or an archive that grows too large."""
        parts = PurePosixPath(name.rstrip("/")).parts
        odd = "\0" in name or "\\" in name or any(len(part.encode(errors="replace")) > 255 for part in parts)
        if odd or not parts or name.startswith("/") or ".." in parts or ":" in parts[0]:
            raise UnsafeArchive(f"{self._pin.archive.file}: {name!r} would be written outside the folder")
        self._seen += max(size, 0)
        if size < 0 or self._seen > ARCHIVE_LIMIT:
            raise UnsafeArchive(f"{self._pin.archive.file} unpacks to more than {ARCHIVE_LIMIT} bytes")

    def write(self, kept: str, size: int, source: IO[bytes]) -> None:
        """Write one kept member. Raises UnsafeArchive: it is there already, or there are more files or bytes than
        pinned; WrongContent: it is shorter or longer than announced; OSError: it cannot be written."""
        name = PurePosixPath(kept).as_posix()
        if name in self._names:
            raise UnsafeArchive(f"{self._pin.archive.file}: {kept} occurs twice")
        self._names.add(name)
        self._bytes += size
        if len(self._names) > self._pin.files or self._bytes > self._pin.bytes:
            raise UnsafeArchive(f"{self._pin.archive.file} holds more than the {self._pin.files} files that are pinned")
        out = self._into.joinpath(*PurePosixPath(name).parts)
        left = size
        with _new_file(out) as file:
            while chunk := source.read(min(_CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    break
                file.write(chunk)
        if left:
            raise WrongContent(f"{self._pin.archive.file}: {kept} does not have the {size} bytes that are announced")


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            yield file
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UnsafeArchive(f"{path.name} already exists, perhaps as a folder") from error


def _refuse_by_filter(member: tarfile.TarInfo, into: Path) -> None:
    """Python's own rules for data archives, where this Python has them (3.11.4 and later)."""
    check: Callable[[tarfile.TarInfo, str], object] | None = getattr(tarfile, "data_filter", None)
    if check is None:
        return
    try:
        check(member, str(into))
    except tarfile.TarError as error:
        raise UnsafeArchive(str(error)) from error
