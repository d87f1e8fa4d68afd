"""Advisory locks that save work. Correctness does not depend on them, but on the atomic rename of an entry.

A lock is that of the system (``system.locks``) on a file under ``locks/``. The file is never deleted, because one process could then lock the old
inode and another the new one. The kernel drops the lock when its holder dies. The file's content names the holder, for a
person to read; it may be stale or half-written.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.errors import Interrupted
from fmha_cli.system.files import BINARY, NOFOLLOW, write_at_start
from fmha_cli.system.locks import try_lock as take_lock
from fmha_cli.toolchain.cache.files import make_private_dir
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify

PATIENCE_S = 1800.0
"""Seconds after which work continues without the lock, because the holder may be stopped or stuck."""

_POLL_S = (0.005, 0.1)
_SILENT_TRIES = 5
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass(frozen=True)
class LockHolder:
    """The process that claims to hold a lock; ``since`` is in seconds since 1970."""

    pid: int
    host: str
    command: str
    since: float

    def __str__(self) -> str:
        ours = (self.pid, self.host) == (os.getpid(), socket.gethostname())
        who = "another thread of this process" if ours else f"process {self.pid} on {self.host} ({self.command})"
        return f"{who} since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.since))}"


def read_holder(path: Path) -> LockHolder | None:
    """The holder that the lock's file names; None when it names none (yet)."""
    try:
        return from_json(LockHolder, json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return None


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Take the lock if it is free, and yield whether it was.

    Raises:
        OSError: the lock file cannot be opened.
    """
    with _holding(_open(path), take_lock) as held:
        yield held


@dataclass(frozen=True)
class WaitingLock:
    """A lock whose wait is reported.

    Attributes:
        path: the lock file.
        what: the object of "waiting for" in messages.
        notify: called once with the holder of the lock, and again if the work continues without it.
        digest: the key concerned, for the notices.
        cancel: when set, the wait ends with ``Interrupted``.
        patience: seconds after which the work continues without the lock.
    """

    path: Path
    what: str
    notify: Notify
    digest: str = ""
    cancel: threading.Event | None = None
    patience: float = PATIENCE_S

    @contextmanager
    def hold(self, still_wanted: Callable[[], bool] = lambda: True) -> Iterator[bool]:
        """Wait for the lock and yield whether it is held. The body must be correct without it.

        It is not held where the file system has no locks and after ``patience`` seconds (each is reported), and as soon
        as ``still_wanted()`` is false.

        Raises:
            Interrupted: ``cancel`` was set while waiting.
            OSError: the disk is full or has no room for a lock file.
        """
        try:
            descriptor = _open(self.path)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._go_without(error)
            yield False
            return
        with _holding(descriptor, lambda number: self._wait(number, still_wanted)) as held:
            yield held

    def _wait(self, descriptor: int, still_wanted: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + self.patience
        pause, limit = _POLL_S
        spoken, tries = False, 0
        while True:
            try:
                if take_lock(descriptor):
                    return True
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._go_without(error)
                return False
            tries += 1
            # A holder that has just begun may not have written its name yet.
            if not spoken and ((holder := read_holder(self.path)) or tries > _SILENT_TRIES):
                spoken = True
                self._say(NoticeKind.WAITING, f"waiting for {self.what}, held by {holder or 'another process'}")
            if not still_wanted():
                return False
            if time.monotonic() >= deadline:
                self._say(NoticeKind.UNLOCKED, f"waited {self.patience:.0f} s for {self.what}: continuing without it")
                return False
            if self.cancel is not None and self.cancel.is_set():
                raise Interrupted(f"interrupted while waiting for {self.what}", code="B009")
            # Not `cancel.wait`: Ctrl-C inside it can leave the event locked for everybody.
            time.sleep(pause)
            pause = min(limit, pause * 1.5)

    def _go_without(self, error: OSError) -> None:
        self._say(NoticeKind.UNLOCKED, f"there is no lock for {self.what} ({error.strerror}): continuing without it")

    def _say(self, kind: NoticeKind, text: str) -> None:
        self.notify(Notice(kind, text, self.digest))


def _open(path: Path) -> int:
    make_private_dir(path.parent)
    # Not inheritable (Python's default): a compiler that outlives its parent must not keep the lock.
    return os.open(path, os.O_RDWR | os.O_CREAT | NOFOLLOW | BINARY, 0o600)


@contextmanager
def _holding(descriptor: int, take: Callable[[int], bool]) -> Iterator[bool]:
    """Take the lock and yield whether it is held. The end closes the descriptor, which releases the lock.

    While it is held, the file names the holder. A failure of that is harmless: only people read it.
    """
    try:
        held = take(descriptor)
        if held:
            holder = LockHolder(os.getpid(), socket.gethostname(), " ".join(sys.argv)[:200], time.time())
            data = json.dumps(to_json(holder)).encode()
            with suppress(OSError):
                write_at_start(descriptor, data)
        try:
            yield held
        finally:
            if held:
                with suppress(OSError):
                    # The file must not name this holder while the next one holds the lock.
                    os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
