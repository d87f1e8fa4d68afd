"""Run one program in its own process group, under limits of time, and kill the whole group when it is over."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from fmha_cli.domain.errors import Interrupted
from fmha_cli.system.processes import Used, end_group, ending_with_this_process, group_seconds, has_ended, new_group
from fmha_cli.system.usage import own_peak

_POLL_S = (0.001, 0.02)
_JOIN_S = 0.2
_LOOK_S = 0.25
"""How often processor time is looked at: that reads one file for each process of the machine."""
_BACKSTOP = 10
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


class Over(StrEnum):
    """The limit that a program ran past."""

    CPU = "of processor time"
    WALL = "from its start"


@dataclass(frozen=True)
class TimeLimits:
    """The time that a program may take before it is killed, in seconds.

    Attributes:
        wall_s: from its start.
        cpu_s: of processors, it and its children together; None for no such limit. Systems that do not tell apply it to the
            time from its start.
    """

    wall_s: float
    cpu_s: float | None = None

    @staticmethod
    def of_compile(seconds: float) -> TimeLimits:
        """So much processor time: on a busy machine, a compiler that gets little of it does not count as hanging. One
        that waits for ever is killed too, after ten times as long.
        """
        return TimeLimits(wall_s=_BACKSTOP * seconds, cpu_s=seconds)

    def text(self, over: Over) -> str:
        """The limit in words, as in "killed after TEXT"."""
        seconds = self.cpu_s if over is Over.CPU else self.wall_s
        return f"its limit of {seconds:g} s {over.value}"


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended.

    Attributes:
        returncode: exit status, or minus the number of the signal that killed it.
        over: the limit that it ran past, which killed it; None if it ended by itself.
        seconds: wall clock seconds.
        cpu_seconds: user and system seconds of it and its children; None where the system does not report them.
        peak_bytes: largest resident size of it or one of its children; None where the system does not report it.
    """

    returncode: int
    over: Over | None
    seconds: float
    cpu_seconds: float | None
    peak_bytes: int | None

    @property
    def timed_out(self) -> bool:
        """Whether it was killed at a limit."""
        return self.over is not None


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
    limits: TimeLimits,
    cancel: threading.Event | None = None,
    errors: IO[bytes] | None = None,
) -> ProgramEnd:
    """Run a program in its own session and process group until it ends, with no standard input.

    When this function returns or raises, no process of the group is left. A child that outlives the program is killed
    like one that ran past a limit. On Unix the end of this process ends the group too, however it comes.

    Args:
        output: an open file for stdout, and for stderr too if ``errors`` is None.
        errors: an open file for stderr.
        cancel: when set, the group is killed.

    Raises:
        OSError: the program cannot be started.
        Interrupted: ``cancel`` was set.
    """
    stop = threading.Event()
    ended: list[ProgramEnd] = []
    faults: list[BaseException] = []

    def body() -> None:
        try:
            ended.append(_run(list(argv), cwd, dict(env), (output, errors), limits, (stop, cancel or stop)))
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
    limits: TimeLimits,
    stops: tuple[threading.Event, threading.Event],
) -> ProgramEnd:
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
        with ending_with_this_process(process.pid):
            over = _wait(process, started, limits, stops)
    finally:
        used = end_group(process)
    return ProgramEnd(
        returncode=process.returncode,
        over=over,
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


def _wait(
    process: subprocess.Popen[bytes], started: float, limits: TimeLimits, stops: tuple[threading.Event, threading.Event]
) -> Over | None:
    """Wait until the process has ended (None) or has run past a limit."""
    pause, longest = _POLL_S
    # Before that, not even all processors together have spent the limit.
    look = started + (limits.cpu_s or 0) / (os.cpu_count() or 1)
    while not has_ended(process):
        now = time.monotonic()
        if now >= started + limits.wall_s:
            return Over.WALL
        if limits.cpu_s is not None and now >= look:
            look = now + _LOOK_S
            used = group_seconds(process.pid)
            if (now - started if used is None else used) >= limits.cpu_s:
                return Over.CPU
        if any(stop.is_set() for stop in stops):
            raise Interrupted("interrupted while a compiler was running", code="B009")
        time.sleep(pause)
        pause = min(longest, pause * 1.2)
    return None
