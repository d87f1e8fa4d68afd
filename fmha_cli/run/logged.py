"""What callers from Python hear of long work: the logger ``fmha``, and a callback of their own."""

from __future__ import annotations

import logging
import time

from fmha_cli.domain.phases import Phase, Tell, Voice, silent

LOGGER = "fmha"
"""Lines and progress are messages of level INFO, which Python shows only when asked."""

EVERY_S = 2.0
"""Seconds of one phase from message to message. Work that is shorter has none."""


def logged_voice(tell: Tell = silent) -> Voice:
    """A voice whose lines, and whose phases that take long, go to the logger; all phases go to ``tell`` too."""
    log = logging.getLogger(LOGGER)
    current: Phase | None = None
    begun = due = 0.0

    def told(phase: Phase, done: int, total: int) -> None:
        nonlocal current, begun, due
        tell(phase, done, total)
        moment = time.monotonic()
        if phase is not current:
            current, begun, due = phase, moment, moment + EVERY_S
        elif moment >= due:
            due = moment + EVERY_S
            log.info("%s: %d of %s after %.0f s", phase.value, done, total or "?", moment - begun)

    return Voice(say=lambda text: log.info("%s", text), phase=told)
