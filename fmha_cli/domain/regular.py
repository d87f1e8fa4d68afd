"""Opening files that a user names: only regular ones, because a pipe or a device may wait or flow for ever."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from fmha_cli.system.files import BINARY, CLOEXEC, NONBLOCK

_OTHERS = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a pipe (FIFO)",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a character device",
    stat.S_ISBLK: "a block device",
}


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; links are followed.

    Raises:
        OSError: it does not exist, cannot be read, or is of another kind, which ``strerror`` names. Such a file is not
            opened.
    """
    _refuse_others(os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | NONBLOCK | CLOEXEC | BINARY)
    try:
        _refuse_others(os.fstat(descriptor))  # it may have been exchanged meanwhile
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def _refuse_others(status: os.stat_result) -> None:
    for test, name in _OTHERS.items():
        if test(status.st_mode):
            raise OSError(errno.EINVAL, f"it is {name}, and only a regular file can be read")
