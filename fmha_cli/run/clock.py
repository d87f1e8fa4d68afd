"""The times that a session reports against the time that the host waited for it: which of them cannot be true.

The worker takes the host's clock around every launch, and the parent takes it around the whole request. A launch cannot
take longer than the host waited for it. The reverse does not hold: a session may leave work out of its time (zeroed
workspaces) or report the mean of many passes, so a time that is a constant share too short is not found here.
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.domain.quantities import duration, time_of

SHORTEST_NS = 10
"""A launch with any work takes longer: to call a function through Python alone takes more than a hundred nanoseconds."""

SLACK, SLACK_NS = 0.01, 5_000
"""By this share and this much a time may exceed the host's: a device's clock drifts against the host's, and its events
have a resolution of half a microsecond."""

UNTIMED, UNTIMED_NS = 1.5, 5_000_000
"""A wait of the host that is so many times as long as the reported time, and longer by so much, deserves a note."""

_DIGITS = 6
"""A contradiction may be small."""

Reported = tuple[tuple[int | None, ...], ...]
"""Nanoseconds by launch and stage; None is a time that was no finite number."""


def contradiction(reported: Reported, waited: Sequence[int], elapsed_ns: int, *, works: bool) -> str | None:
    """The first time that cannot be true, in words; None if all of them can.

    Args:
        waited: nanoseconds that the worker waited for each launch.
        elapsed_ns: nanoseconds that the parent waited for all of them.
        works: whether the problem has any work; a launch without work may take no time.
    """
    count = len(reported)
    for number, (stages, host) in enumerate(zip(reported, waited, strict=True), 1):
        where = f"launch {number} of {count}" if count > 1 else "the launch"
        if any(ns is None for ns in stages):
            return f"{where} reported a time that is not a finite number"
        times = [ns for ns in stages if ns is not None]
        total = sum(times)
        if min(times) < 0:
            return f"{where} reported {time_of(min(times), _DIGITS)}: a time is not negative"
        if works and total < SHORTEST_NS:
            return f"{where} reported {time_of(total, _DIGITS)}: no launch takes less than {duration(SHORTEST_NS)}"
        if _beyond(total, host):
            return (
                f"{where} reported {time_of(total, _DIGITS)}, but the host waited only {time_of(host, _DIGITS)} for it"
            )
    for what, total in (
        ("reported", sum(ns or 0 for stages in reported for ns in stages)),
        ("waited for", sum(waited)),
    ):
        if _beyond(total, elapsed_ns):
            return f"{count} launches: {time_of(total, _DIGITS)} {what}, but the host's clock advanced by {time_of(elapsed_ns, _DIGITS)} only"
    return None


def untimed(reported: Sequence[int], waited: Sequence[int]) -> str | None:
    """A note where the host waited much longer than was reported; None where it did not.

    Args:
        reported: nanoseconds of each launch.
        waited: nanoseconds that the host waited for each of them.
    """
    if not reported or not waited:
        return None
    time, wait = (sorted(times)[len(times) // 2] for times in (reported, waited))
    if wait < time * UNTIMED or wait - time < UNTIMED_NS:
        return None
    return (
        f"the host waited {duration(wait)} for a launch that is reported with {duration(time)}: "
        "the rest is outside the timed part, or the timer is wrong"
    )


def _beyond(reported: int, waited: int) -> bool:
    return reported > waited * (1 + SLACK) + SLACK_NS
