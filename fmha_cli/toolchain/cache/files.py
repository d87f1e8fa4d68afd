"""Durable file operations of the cache, and the errors they turn into.

Every function raises plain ``OSError``. ``as_environment_problem`` alone turns a full disk, a read-only file system or a
missing permission into the exit-4 error that a user sees.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.system.files import BINARY, NOFOLLOW, NONBLOCK, foreign_owner, set_mode, sync_folder, writable_by_others

PRIVATE_DIR = 0o700
SEALED_FILE = 0o400
"""Mode of a file in a finished entry: not even the owner is meant to write to it again."""

_HELP = {
    errno.ENOSPC: "free some space (`fmha cache prune` helps), or point FMHA_CACHE_DIR at another disk",
    errno.EDQUOT: "free some of your quota (`fmha cache prune` helps), or point FMHA_CACHE_DIR at another disk",
    errno.EFBIG: "raise the file size limit (`ulimit -f`)",
    errno.EROFS: "point FMHA_CACHE_DIR at a writable directory",
    errno.EACCES: "point FMHA_CACHE_DIR at a directory that you may write to",
    errno.EPERM: "point FMHA_CACHE_DIR at a directory that you may write to",
}


@dataclass(frozen=True)
class FileContent:
    """The content of a file: its SHA-256 (hex) and its size in bytes."""

    sha256: str
    size: int


class UnsafeFileError(Exception):
    """A file of the cache that is not a regular file of this user alone; the message says what it is instead."""


@contextmanager
def as_environment_problem(doing: str) -> Iterator[None]:
    """Turn an ``OSError`` of the body into an ``EnvironmentProblem`` (exit 4) that states the operation."""
    try:
        yield
    except OSError as error:
        path = error.filename if isinstance(error.filename, str) else None
        raise EnvironmentProblem(
            f"{doing} failed: {error.strerror or error}",
            code="B002",
            where=path,
            help=_HELP.get(error.errno or 0, "point FMHA_CACHE_DIR at a working directory"),
        ) from error


def make_private_dir(path: Path) -> None:
    """Create ``path`` and its missing parents with mode 0700, whatever the umask. Existing ones stay as they are."""
    if path.is_dir():
        return
    make_private_dir(path.parent)
    try:
        path.mkdir(PRIVATE_DIR)
    except FileExistsError:
        return
    path.chmod(PRIVATE_DIR)


def seal(path: Path) -> None:
    """Make a finished file durable and read-only."""
    descriptor = os.open(path, os.O_RDONLY | NOFOLLOW)
    try:
        set_mode(descriptor, path, SEALED_FILE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_sealed(path: Path, data: bytes) -> None:
    """Create a new file with ``data``, durable and read-only. The file must not exist."""
    with path.open("xb") as file:
        file.write(data)
    seal(path)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` with ``data``: a reader sees the old or the new bytes, never a mixture."""
    make_private_dir(path.parent)
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that replaces ``path``, complete and durable, if the body ends without an error.

    Raises:
        OSError: among others, ``path`` exists and is not a regular file: a pipe or a device is never replaced.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it is not a regular file, and is not replaced", str(path))
    beside = path.with_name(f".{path.name[:40]}.{uuid.uuid4().hex}")  # a long name still gets one that fits
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def open_own(path: Path) -> int:
    """Open a file of the cache for reading and return its descriptor, which the caller closes.

    Raises:
        UnsafeFileError: it is a symlink or not a regular file, belongs to another user, or others may write to it.
        OSError: it does not exist or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK | BINARY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeFileError("is a symlink") from error
        raise
    status = os.fstat(descriptor)
    fault = None
    if not stat.S_ISREG(status.st_mode):
        fault = "is not a regular file"
    elif (owner := foreign_owner(status)) is not None:
        fault = f"belongs to uid {owner}"
    elif writable_by_others(status):
        fault = f"is writable by others (mode {stat.S_IMODE(status.st_mode):04o})"
    if fault:
        os.close(descriptor)
        raise UnsafeFileError(fault)
    return descriptor


def read_own(path: Path) -> bytes:
    """The bytes of a file of the cache. Raises what ``open_own`` raises."""
    with os.fdopen(open_own(path), "rb") as file:
        return file.read()


def hash_own(path: Path) -> FileContent:
    """The content of a file of the cache. Raises what ``open_own`` raises."""
    with os.fdopen(open_own(path), "rb") as file:
        return FileContent(hashlib.file_digest(file, "sha256").hexdigest(), file.tell())


def tree_size(path: Path) -> int:
    """Bytes of all regular files under ``path``. Files that vanish during the walk do not count."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total


def remove_tree(path: Path) -> None:
    """Remove a directory tree; whatever cannot be removed is left for the next ``prune``."""
    shutil.rmtree(path, ignore_errors=True)
