"""The worker's precautions at its start: a bad kernel must harm no other process and leave no orphan."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def confine(lifeline: int, parent: int, *, pdeathsig: bool) -> None:
    """Tie this process's life to its parent's and prepare for a crash.

    Args:
        lifeline: reading end of a pipe whose writing end only the parent holds; it closes when the parent ends.
        parent: process id of the parent as the parent knows it.
        pdeathsig: also ask the system for SIGKILL when the parent dies. The signal comes when the *thread* that
            started this process ends, so only a process that a main thread started may ask for it.

    Raises:
        SystemExit: the parent has already ended.
    """
    if pdeathsig and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)
    threading.Thread(target=_watch, args=(lifeline,), daemon=True, name="lifeline").start()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # a sweep of crashing kernels must not fill the disk
    with suppress(OSError):  # when memory runs out, the worker goes first and the parent can report it
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def _watch(lifeline: int) -> None:
    """Kill the whole group when the parent has ended, whatever the kernel is doing."""
    with suppress(OSError):
        os.read(lifeline, 1)
    with suppress(ProcessLookupError):  # not the leader of a group: then the group belongs to another process
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
