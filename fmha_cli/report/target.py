"""``Target``: where an output goes. It is checked before any work and written afterwards.

A regular file is replaced as a whole, so a reader sees the old content or the new. A pipe (FIFO) or a character device is
written to and never replaced, and so is a file that already is this process's stdout or stderr (``-o /dev/stdout``).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.system.files import BINARY, CLOEXEC, NOCTTY, set_mode
from fmha_cli.toolchain.cache.files import replacing


class Unread(Exception):
    """Nobody takes any more of the output: work for it may end."""


_HELP = {
    errno.ENOENT: "create the folder first, or name one that exists",
    errno.ENOTDIR: "a part of the path is a file; name a folder that exists",
    errno.EISDIR: "name a file in that folder",
    errno.EACCES: "name a place that you may write to, or change its permissions",
    errno.EPERM: "name a place that you may write to, or change its permissions",
    errno.EROFS: "name a place on a file system that can be written to",
    errno.ENOSPC: "free some space, or name a place on another disk",
    errno.EDQUOT: "free some of your quota, or name a place on another disk",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`)",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "the links of this path point at each other; name another file",
}


class TargetKind(Enum):
    """How a target is written."""

    REPLACED = "a regular file, or none yet"
    STREAM = "a pipe or a character device"
    OWN = "the file behind this process's stdout or stderr"


def refused(flag: str, path: object, fault: OSError) -> EnvironmentProblem:
    """X040 for the fault of a file system: what, where, why and what to do."""
    help = _HELP.get(fault.errno or 0, "name another place")
    why = (fault.strerror or str(fault)).lower()
    return EnvironmentProblem(
        f"{flag} {path}".rstrip() + ": cannot be written", code="X040", where=flag, why=why, help=help
    )


@dataclass(frozen=True)
class Target:
    """The file of one flag.

    Attributes:
        path: as given; links are followed when it is written.
        flag: the flag that named it, for errors.
    """

    path: Path
    flag: str

    def check(self, *, probe: bool = True) -> None:
        """Refuse a target that cannot be written. Nothing is changed.

        Args:
            probe: also create a file next to a regular target and remove it. This alone notices a folder in which root
                may create nothing, a read-only file system and a full disk.

        Raises:
            EnvironmentProblem: X040.
        """
        try:
            kind, own = self._kind()
            if kind is TargetKind.STREAM and not _may_write(self.path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            if kind is TargetKind.REPLACED and probe:
                with _beside(own) as file:
                    file.write(b"\0")
        except (OSError, ValueError) as fault:
            raise self._refused(fault) from fault

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """A stream of bytes for the target. A regular file appears under its name when the body ends without an error.

        Raises:
            EnvironmentProblem: X040, for every ``OSError`` of the body too.
            BrokenPipeError: nobody reads the pipe any more.
        """
        try:
            with self._stream() as file:
                yield file
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise self._refused(fault) from fault

    @contextmanager
    def _stream(self) -> Iterator[BinaryIO]:

        kind, own = self._kind()
        if kind is TargetKind.REPLACED:
            with replacing(own) as file:
                with suppress(FileNotFoundError):
                    set_mode(file.fileno(), Path(file.name), stat.S_IMODE(own.stat().st_mode))
                yield file
            return
        descriptor = int(own.name) if kind is TargetKind.OWN else os.open(own, os.O_WRONLY | NOCTTY | CLOEXEC | BINARY)
        with os.fdopen(descriptor, "wb", closefd=kind is TargetKind.STREAM) as file:
            yield file

    def _kind(self) -> tuple[TargetKind, Path]:
        """How it is written, and the path behind all links (of ``TargetKind.OWN``: the number of the descriptor).

        Raises:
            OSError: it cannot be written, whatever its permissions are.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            own = Path(os.path.realpath(self.path))
            if not own.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, f"there is no folder {own.parent}") from None
            return TargetKind.REPLACED, own
        for descriptor in (1, 2):
            with suppress(OSError):
                if os.path.samestat(status, os.fstat(descriptor)):
                    return TargetKind.OWN, Path(str(descriptor))
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
            return TargetKind.STREAM, self.path
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ENXIO, "neither a regular file, a pipe nor a character device")
        if not _may_write(self.path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return TargetKind.REPLACED, Path(os.path.realpath(self.path))

    def _refused(self, fault: OSError | ValueError) -> EnvironmentProblem:
        shown = str(self.path)
        shown = shown if len(shown) <= 160 else f"{shown[:80]}...{shown[-40:]} ({len(shown)} characters)"
        return refused(self.flag, shown, fault if isinstance(fault, OSError) else OSError(errno.EINVAL, str(fault)))


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@contextmanager
def _beside(path: Path) -> Iterator[BinaryIO]:
    """A file in the folder of ``path`` that is gone afterwards."""
    import uuid

    probe = path.with_name(f".fmha-{uuid.uuid4().hex}")
    try:
        with probe.open("xb") as file:
            yield file
    finally:
        probe.unlink(missing_ok=True)


def check_folder(path: Path, flag: str) -> None:
    """Refuse a folder in which files could not be written; it need not exist, but then it must be possible to make it.

    Raises:
        EnvironmentProblem: X040.
    """
    try:
        here = path
        while True:
            try:
                status = here.stat()
                break
            except FileNotFoundError:
                if here.parent == here:
                    raise
                here = here.parent
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, f"{here} is not a folder")
        with _beside(here / "x") as file:
            file.write(b"\0")
    except (OSError, ValueError) as fault:
        raise Target(path, flag)._refused(fault) from fault
