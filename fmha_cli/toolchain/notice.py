"""Notices of the toolchain while it works. They go to a callback, never to a stream."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.domain.phases import Phase, Tell, silent


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
    FETCHED = "fetched"
    """Bytes of a source have come. It is for a line of progress, and has no text."""


@dataclass(frozen=True)
class Notice:
    """One notice.

    Attributes:
        kind: its reason.
        text: one complete sentence for a person, without a final full stop.
        digest: the key concerned, or the empty string.
        done, total: bytes of a fetch.
    """

    kind: NoticeKind
    text: str
    digest: str = ""
    done: int = 0
    total: int = 0


Notify = Callable[[Notice], None]


def log_notice(notice: Notice) -> None:
    """The default listener: a warning on the ``fmha.build`` logger."""
    if notice.text:
        logging.getLogger("fmha.build").warning("%s", notice.text)


def as_text(listener: Callable[[str], None], phase: Tell = silent) -> Notify:
    """Make a listener for notices from listeners for plain text and for phases (``BuildContext.notify`` and ``phase``)."""

    def hear(notice: Notice) -> None:
        if notice.kind is NoticeKind.FETCHED:
            phase(Phase.FETCH, notice.done, notice.total)
        else:
            listener(notice.text)

    return hear
