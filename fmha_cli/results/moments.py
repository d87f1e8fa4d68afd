"""Moments as text (ISO 8601 in UTC, whole seconds) and as numbers of seconds since 1970."""

from __future__ import annotations

import calendar
import time

_FORM = "%Y-%m-%dT%H:%M:%SZ"


def seconds_of(moment: str | None) -> int | None:
    """The number of a moment; None for None and for a text of another form."""
    try:
        return None if moment is None else calendar.timegm(time.strptime(moment, _FORM))
    except ValueError:
        return None


def moment_of(seconds: int | None) -> str | None:
    """The text of a number; None for None."""
    return None if seconds is None else time.strftime(_FORM, time.gmtime(seconds))
