"""The lock, which reports its waiting time."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import Interrupted
from fmha_cli.toolchain.cache.lock import LockHolder, WaitingLock, read_holder, try_lock
from fmha_cli.toolchain.notice import Notice, NoticeKind


def test_held_and_free(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a.lock"
    with try_lock(path) as first, try_lock(path) as second:
        assert (first, second) == (True, False)
    with try_lock(path) as again:
        assert again
    assert path.exists(), "a lock file that is deleted protects nothing"


def test_the_file_names_the_holder_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fmha", "run", "--batch", "2"])
    path = tmp_path / "a.lock"
    with try_lock(path):
        holder = read_holder(path)
        assert holder is not None
        assert (holder.pid, holder.command) == (os.getpid(), "fmha run --batch 2")
        with try_lock(path):
            assert read_holder(path) == holder, "one who did not get the lock must not write its name"
    assert read_holder(path) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff"])
def test_a_half_written_holder_is_nobody(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.lock").write_bytes(raw)
    assert read_holder(tmp_path / "a.lock") is None


def test_a_symlink_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="Too many levels"), try_lock(tmp_path / "a.lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_waiting_ends_when_the_holder_leaves(tmp_path: Path, notices: Any) -> None:
    path = tmp_path / "a.lock"
    spoken = threading.Event()

    def listen(notice: Notice) -> None:
        notices(notice)
        spoken.set()

    lock = WaitingLock(path, "the build of x", listen)
    got: list[bool] = []

    def wait() -> None:
        with lock.hold() as held:
            got.append(held)

    with try_lock(path):
        thread = threading.Thread(target=wait)
        thread.start()
        assert spoken.wait(30)
        assert got == []
    thread.join()
    assert got == [True]
    assert notices.kinds() == [NoticeKind.WAITING]
    assert notices.said[0].text.startswith("waiting for the build of x, held by another thread of this process since 2")


def test_a_holder_is_named_by_its_process_unless_it_is_this_one() -> None:
    here = LockHolder(os.getpid(), socket.gethostname(), "fmha run", 0.0)
    assert str(here).startswith("another thread of this process since ")
    for other in (replace(here, pid=here.pid + 1), replace(here, host="elsewhere")):
        assert str(other).startswith(f"process {other.pid} on {other.host} (fmha run) since ")


def test_nothing_is_said_without_waiting(tmp_path: Path, notices: Any) -> None:
    with WaitingLock(tmp_path / "a.lock", "x", notices).hold() as held:
        assert held
    assert notices.said == []


def test_waiting_ends_when_it_is_no_longer_wanted(tmp_path: Path, notices: Any) -> None:
    with try_lock(tmp_path / "a.lock"), WaitingLock(tmp_path / "a.lock", "x", notices).hold(lambda: False) as held:
        assert not held


def test_cancel(tmp_path: Path, notices: Any) -> None:
    cancel = threading.Event()
    cancel.set()
    lock = WaitingLock(tmp_path / "a.lock", "x", notices, cancel=cancel)
    with try_lock(tmp_path / "a.lock"), pytest.raises(Interrupted), lock.hold():
        pass
    with lock.hold() as held:
        assert held, "a free lock needs no waiting, so there is nothing to cancel"


def test_patience(tmp_path: Path, notices: Any) -> None:
    with try_lock(tmp_path / "a.lock"), WaitingLock(tmp_path / "a.lock", "x", notices, patience=0).hold() as held:
        assert not held
    assert notices.kinds() == [NoticeKind.WAITING, NoticeKind.UNLOCKED]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_said_and_does_not_stop(
    tmp_path: Path, notices: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with WaitingLock(tmp_path / "a.lock", "x", notices).hold() as held:
        assert not held
    assert notices.kinds() == [NoticeKind.UNLOCKED]


def test_a_full_disk_is_an_error(tmp_path: Path, notices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space"), WaitingLock(tmp_path / "a.lock", "x", notices).hold():
        pass


def test_an_exception_in_the_body_frees_the_lock(tmp_path: Path, notices: Any) -> None:
    lock = WaitingLock(tmp_path / "a.lock", "x", notices)
    with pytest.raises(RuntimeError), lock.hold():
        raise RuntimeError
    with try_lock(tmp_path / "a.lock") as held:
        assert held


def test_the_lock_of_a_killed_process_is_free_even_if_its_child_lives(
    tmp_path: Path, child: Callable[..., subprocess.Popen[str]]
) -> None:
    """A compiler that outlives its killed parent must not block everybody else."""
    code = (
        "import subprocess, sys\n"
        "from pathlib import Path\n"
        "from fmha_cli.toolchain.cache.lock import try_lock\n"
        "with try_lock(Path(sys.argv[1])) as held:\n"
        "    orphan = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "    print(held, orphan.pid, flush=True)\n"
        "    orphan.wait()\n"
    )
    process = child(code, str(tmp_path / "a.lock"))
    assert process.stdout is not None
    held, orphan = process.stdout.readline().split()
    assert held == "True"
    with try_lock(tmp_path / "a.lock") as taken:
        assert not taken
    process.kill()
    process.communicate()
    try:
        with try_lock(tmp_path / "a.lock") as taken:
            assert taken
    finally:
        os.kill(int(orphan), 9)
