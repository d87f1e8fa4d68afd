"""Processes and their groups: sessions and signals on Unix, process groups and ``TerminateProcess`` on Windows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.system.usage import RESOURCE, scale_of_peak

GROUPS = hasattr(os, "killpg")
"""Whether one call ends a process and all that it started."""
KILLED = -int(getattr(signal, "SIGKILL", 9))
"""The exit status of a process that the system has killed, as ``subprocess`` reports it on Unix."""
ABORTED = -int(signal.SIGABRT)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def ending_signals() -> tuple[signal.Signals, ...]:
    """The signals other than Ctrl-C that ask a command to end: a closed terminal, ``timeout``, CI, Ctrl-Break."""
    names = ("SIGTERM", "SIGHUP", "SIGBREAK")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def new_group() -> dict[str, Any]:
    """The arguments of ``subprocess.Popen`` that give a process its own group."""
    if GROUPS:
        return {"start_new_session": True}
    return {"creationflags": int(getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0))}


def kill_group(pid: int) -> None:
    """End a process of ``new_group`` and all that it started; nothing happens if it is gone.

    Windows has no such call: its ``taskkill`` walks the tree of processes.
    """
    if GROUPS:
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
            os.killpg(pid, signal.SIGKILL)
        return
    with suppress(OSError):
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True, check=False)


@contextmanager
def ending_with_this_process(group: int) -> Iterator[None]:
    """While it lasts, the end of this process ends a group of ``new_group`` too, however it comes: SIGKILL, or a SIGTERM that no handler
    takes, as in a program that calls this one as a library.

    A shell waits at the other end of a pipe that only this process holds open. Windows has no such shell, so it is
    skipped there.
    """
    if not GROUPS:
        yield
        return
    script = f"read _; kill -s KILL -- -{group}"
    with subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            yield
        finally:
            shell.kill()


def end_own_group() -> None:
    """End this process and all that it started, at once."""
    if GROUPS:
        with suppress(ProcessLookupError):  # not the leader of its group, which then belongs to another process
            os.killpg(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM)  # Windows: TerminateProcess


@dataclass(frozen=True)
class Used:
    """The resources that a process and its children used: seconds of processors, bytes of the largest resident size."""

    cpu_seconds: float
    peak_bytes: int


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the leader of a group has ended. It stays a zombie where the system allows that.

    While the zombie exists, its process id names this group and no other, so it is safe to kill the group.
    """
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return process.poll() is not None


def end_group(process: subprocess.Popen[bytes]) -> Used | None:
    """End every process of the group and reap the leader. Returns the used resources, if the system reports them."""
    if GROUPS or process.poll() is None:
        kill_group(process.pid)
    if process.returncode is not None:
        return None
    if RESOURCE is None or not hasattr(os, "wait4"):
        process.wait()
        return None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale_of_peak())


def group_seconds(pid: int) -> float | None:
    """Seconds of processors that the session of ``new_group`` has used so far, its ended children included.

    None where the system does not tell: only Linux lists the processes of a session.
    """
    if sys.platform != "linux":
        return None
    ticks = 0
    try:
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                ticks += _ticks_in_session(entry.path, pid)
    except OSError:
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks_in_session(process: str, session: int) -> int:
    """utime, stime, cutime and cstime of ``/proc/PID/stat`` (proc(5)); 0 for a process of another session, or none any more."""
    try:
        text = Path(process, "stat").read_text("ascii", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) if int(fields[3]) == session else 0


def die_with_parent() -> None:
    """Ask Linux for a SIGKILL when the thread that started this process ends; other systems have no such request."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_first() -> None:
    """When memory runs out, Linux then ends this process before its parent."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def ended_for_memory() -> int:
    """Processes that Linux has killed for lack of memory since it started; 0 if unknown."""
    try:
        text = Path("/proc/vmstat").read_text("ascii")
    except OSError:
        return 0
    counts = (line.split()[1] for line in text.splitlines() if line.startswith("oom_kill "))
    return int(next(counts, "0"))
