"""This Python with what other systems lack taken away: a ``sitecustomize`` for child processes.

It cannot show that a system works, only that nothing here needs what that system is known to lack.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MACOS: Mapping[str, tuple[str, ...]] = {
    "os": ("memfd_create", "sched_getaffinity", "sched_setaffinity", "waitid"),
    "mmap": ("MADV_HUGEPAGE",),
}
"""What Linux has and macOS lacks (Python 3.11: ``os.waitid`` too), by module."""

WINDOWS: Mapping[str, tuple[str, ...]] = {
    "os": (
        *MACOS["os"],
        *("fork", "killpg", "getpgid", "setsid", "wait4", "sysconf", "geteuid", "fchmod", "pwrite", "pread"),
        *("set_blocking", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "mkfifo"),
    ),
    "signal": ("SIGHUP", "SIGUSR1", "SIGALRM", "pthread_sigmask"),
    "socket": ("send_fds", "recv_fds", "AF_UNIX"),
    "mmap": (*MACOS["mmap"], "MAP_SHARED", "PROT_READ", "PROT_WRITE", "MAP_ANONYMOUS"),
}
MISSING = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")
"""Modules that Windows lacks."""

_TEXT = """
import builtins, importlib, io, pathlib, subprocess, sys, tempfile, signal, socket, mmap, os, ctypes
for name in {missing!r}:
    sys.modules[name] = None
for module, names in {gone!r}.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
hidden = {hidden!r}
real_open, real_read = os.open, pathlib.Path.read_text
def read_text(self, *given, **named):
    if str(self).startswith(hidden):
        raise FileNotFoundError(2, "no such file", str(self))
    return real_read(self, *given, **named)
pathlib.Path.read_text = read_text
"""


def run_as(
    system: Mapping[str, tuple[str, ...]], folder: Path, *words: str, cache: Path, windows: bool = False
) -> subprocess.CompletedProcess[str]:
    """``python WORDS`` without what the system lacks, nor ``/proc`` and ``/sys``; so are the processes that it starts."""
    folder.mkdir(exist_ok=True)
    text = _TEXT.format(missing=MISSING if windows else (), gone=dict(system), hidden=("/proc/", "/sys/"))
    (folder / "sitecustomize.py").write_text(text, "utf-8")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "FMHA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, check=False)
