"""Advisory locks on open files: ``flock`` on Unix, ``msvcrt.locking`` on Windows."""

from __future__ import annotations

import errno
import importlib
import os
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from fmha_cli.system.files import BINARY, CLOEXEC


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_FCNTL, _MSVCRT = _module("fcntl"), _module("msvcrt")
_LAST = 0x7FFFFFFF
"""The byte that Windows locks: far behind every file's end, because others could not read a locked one."""


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file without waiting; False when another process has it. It ends when the file is closed.

    Args:
        shared: others may share it. Windows' byte locks know no sharing, so one process at a time has it there.

    Raises:
        OSError: the file system has no locks, or (``ENOTSUP``) this Python has none.
    """
    if _FCNTL is not None:
        try:
            _FCNTL.flock(descriptor, (_FCNTL.LOCK_SH if shared else _FCNTL.LOCK_EX) | _FCNTL.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    if _MSVCRT is not None:
        return _locked_byte(_MSVCRT, descriptor)
    raise OSError(errno.ENOTSUP, "this Python has no file locks")


def claim(path: Path, wait_s: float) -> int | None:
    """Make a file and lock it: its descriptor; None if another process has it for so many seconds.

    Raises:
        OSError: the file cannot be made, or the file system has no locks.
    """
    until = time.monotonic() + wait_s
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | CLOEXEC | BINARY, 0o600)
        held = try_lock(descriptor)
        if held and os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)
        if not held and time.monotonic() > until:
            return None
        time.sleep(0 if held else wait_s / 50)


def release(path: Path, descriptor: int) -> None:
    """Remove a file while it is locked, so that nobody waits for one that has no name any more, and end the lock."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    os.close(descriptor)


def _locked_byte(msvcrt: ModuleType, descriptor: int) -> bool:
    """Lock one byte, which Windows allows behind the end of a file; the position stays."""
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LAST, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError as fault:
        if fault.errno in (errno.EACCES, errno.EDEADLK):
            return False
        raise
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)
    return True
