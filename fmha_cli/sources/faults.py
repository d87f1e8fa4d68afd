"""Why a source could not be fetched, and how addresses are shown to people."""

from __future__ import annotations

import re

_USER = re.compile(r"(?<=//)[^/@\s]*@")
_QUERY = re.compile(r"\?\w+=[^\s'\")]*")


class FetchError(Exception):
    """One failed attempt to get a file. The message gives the reason in one line, without credentials."""

    def __init__(self, text: str) -> None:
        super().__init__(redact(text))


class WrongContent(FetchError):
    """The file exists, but it is not the pinned one."""


class UnsafeArchive(FetchError):
    """An archive that would write elsewhere, holds links or devices, or is larger than it should be."""


def redact(text: str) -> str:
    """The text with user names, passwords and query strings taken out of its addresses."""
    return _QUERY.sub("", _USER.sub("", text))
