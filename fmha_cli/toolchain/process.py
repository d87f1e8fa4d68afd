"""Run one program in its own process group, under a deadline, and kill the whole group when it is over."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fmha_cli.domain.errors import Interrupted
from fmha_cli.system.processes import Used, end_group, has_ended, new_group
from fmha_cli.system.usage import own_peak

_POLL_S = (0.001, 0.02)
_JOIN_S = 0.2
_CLEARLY_ABOVE = 1.05

# Variables that make a compiler silently use other headers, libraries or options. A build key does not contain them, so
# they must not reach a build.
_MEDDLERS = frozenset(
    {
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "OBJC_INCLUDE_PATH",
        "OBJCPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "LD_PRELOAD",
        "LD_RUN_PATH",
        "GCC_EXEC_PREFIX",
        "COMPILER_PATH",
        "GCC_COMPARE_DEBUG",
        "DEPENDENCIES_OUTPUT",
        "SUNPRO_DEPENDENCIES",
        "CCC_OVERRIDE_OPTIONS",
        "CCC_ADD_ARGS",
        "HIPCC_COMPILE_FLAGS_APPEND",
        "HIPCC_LINK_FLAGS_APPEND",
        "HIP_DEVICE_LIB_PATH",
        "DEVICE_LIB_PATH",
        "NVCC_APPEND_FLAGS",
        "NVCC_PREPEND_FLAGS",
    }
)


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        returncode: exit status, or minus the number of the signal that killed it.
        timed_out: it ran past its deadline and was killed.
        seconds: wall clock seconds.
        cpu_seconds: user and system seconds of it and its children; None where the system does not report them.
        peak_bytes: largest resident size of it or one of its children; None where the system does not report it.
    """

    returncode: int
    timed_out: bool
    seconds: float
    cpu_seconds: float | None
    peak_bytes: int | None


def compiler_environment(scratch: Path) -> dict[str, str]:
    """This process's environment, adapted for a build.

    It lacks the variables that change a compiler's output without being part of the key. Messages are in English,
    temporary files go to ``scratch``, and ``__DATE__`` is fixed.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _MEDDLERS}
    return kept | {
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "0",
        "TMPDIR": str(scratch),
        "ZIG_LOCAL_CACHE_DIR": str(scratch / "zig"),
    }


def run_group(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: IO[bytes],
    timeout: float,
    cancel: threading.Event | None = None,
    errors: IO[bytes] | None = None,
) -> Ended:
    """Run a program in its own session and process group until it ends, with no standard input.

    When this function returns or raises, no process of the group is left. A child that outlives the program is killed
    like one that ran past the deadline. Only a SIGKILL of this process leaves the group running.

    Args:
        output: an open file for stdout, and for stderr too if ``errors`` is None.
        errors: an open file for stderr.
        timeout: seconds.
        cancel: when set, the group is killed.

    Raises:
        OSError: the program cannot be started.
        Interrupted: ``cancel`` was set.
    """
    stop = threading.Event()
    ended: list[Ended] = []
    faults: list[BaseException] = []

    def body() -> None:
        try:
            ended.append(_run(list(argv), cwd, dict(env), (output, errors), timeout, (stop, cancel or stop)))
        except BaseException as fault:  # noqa: BLE001 - it is raised again below, in the caller's thread
            faults.append(fault)

    # In a separate thread, because Ctrl-C is raised in the main thread at any point, even after the program was started
    # and before its process id is known. A plain thread, because the locks of a future or of a queue written in Python
    # can stay locked when Ctrl-C hits them.
    thread = threading.Thread(target=body, name="run-group")
    try:
        thread.start()
        while thread.is_alive():
            # With a limit, because Ctrl-C just before an endless wait begins is seen only after it.
            thread.join(_JOIN_S)
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join()
    if faults:
        raise faults[0]
    return ended[0]


def _run(
    argv: list[str],
    cwd: Path,
    env: dict[str, str],
    outputs: tuple[IO[bytes], IO[bytes] | None],
    timeout: float,
    stops: tuple[threading.Event, threading.Event],
) -> Ended:
    started = time.monotonic()
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=outputs[0],
        stderr=outputs[1] or subprocess.STDOUT,
        **new_group(),
    )
    own = own_peak()  # after the exec: other threads may have grown until then
    try:
        in_time = _wait(process, started + timeout, stops)
    finally:
        used = end_group(process)
    return Ended(
        returncode=process.returncode,
        timed_out=not in_time,
        seconds=time.monotonic() - started,
        cpu_seconds=used.cpu_seconds if used else None,
        peak_bytes=_peak(used, own),
    )


def _peak(used: Used | None, own: int) -> int | None:
    """Peak memory of the group in bytes; None where it is unknown.

    Linux starts a child's figure with its parent's peak at the exec, and counts pages per processor with some slack
    (``mm/memory.c``, ``percpu_counter``). A figure is therefore meaningful only if it is clearly above ``own``, the parent's.
    """
    if used is None or (sys.platform == "linux" and used.peak_bytes <= own * _CLEARLY_ABOVE):
        return None
    return used.peak_bytes


def _wait(process: subprocess.Popen[bytes], deadline: float, stops: tuple[threading.Event, threading.Event]) -> bool:
    """Wait until the process has ended (True) or the deadline has passed (False)."""
    pause, limit = _POLL_S
    while not has_ended(process):
        if time.monotonic() >= deadline:
            return False
        if any(stop.is_set() for stop in stops):
            raise Interrupted("interrupted while a compiler was running", code="B009")
        time.sleep(pause)
        pause = min(limit, pause * 1.2)
    return True
