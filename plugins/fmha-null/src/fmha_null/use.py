"""A log of which process uses which device when, and of two that use one at once, for tests of code that shares out
devices.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

LOG = "NULL_BACKEND_LOG"
"""Variable: the folder of the logs. Each launch leaves a line: ``PID START END``, in nanoseconds of one clock of the machine,
or ``PID START overlap`` if another process was using the device."""


def use_of(device: str) -> Callable[[], AbstractContextManager[None]]:
    """What surrounds every launch on a device."""
    folder = os.environ.get(LOG)
    return nullcontext if folder is None else lambda: _logged(Path(folder), device.replace(":", "_"))


@contextmanager
def _logged(folder: Path, device: str) -> Iterator[None]:
    import fcntl  # not on every system

    start, how = time.monotonic_ns(), None
    with (folder / f"{device}.busy").open("a") as busy, (folder / f"{device}.log").open("a") as log:
        try:
            fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            how = "overlap"
        try:
            yield
        finally:
            log.write(f"{os.getpid()} {start} {how or time.monotonic_ns()}\n")
