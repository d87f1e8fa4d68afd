"""Notices of the toolchain while it works. They go to a callback, never to a stream."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class NoticeKind(StrEnum):
    """The reason for a notice."""

    WAITING = "waiting"
    """Another process builds the same thing; this one waits for it."""
    UNLOCKED = "unlocked"
    """The lock is unavailable; the work continues without it, and may be done twice."""
    QUARANTINED = "quarantined"
    """A damaged entry was moved away."""
    NOT_SAVED = "not_saved"
    """Something that would have saved work later could not be written."""
    TOOLCHAIN = "toolchain"
    """A compiler was passed over, or is about to take a long time."""
    CODE = "code"
    """Something in a compiled kernel costs speed."""
    SOURCE = "source"
    """A third-party source is being fetched, or was passed over."""


@dataclass(frozen=True)
class Notice:
    """One notice.

    Attributes:
        kind: its reason.
        text: one complete sentence for a person, without a final full stop.
        digest: the key concerned, or the empty string.
    """

    kind: NoticeKind
    text: str
    digest: str = ""


Notify = Callable[[Notice], None]


def log_notice(notice: Notice) -> None:
    """The default listener: a warning on the ``fmha.build`` logger."""
    logging.getLogger("fmha.build").warning("%s", notice.text)


def as_text(listener: Callable[[str], None]) -> Notify:
    """Make a listener for notices from a listener for plain text (``BuildContext.notify``)."""
    return lambda notice: listener(notice.text)
