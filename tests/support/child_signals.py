"""Child processes that hear signals, however the suite was started."""

from __future__ import annotations

import signal


def hear_signals() -> None:
    """For ``preexec_fn``: restore the signals that child processes ignore if the suite runs in the background or under
    ``nohup``."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
