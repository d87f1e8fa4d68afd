"""The width of the terminal that a stream leads to. One rule holds for data, messages and errors.

``COLUMNS`` counts first, as for other programs. Without it a stream that leads to no terminal has no width: nothing that
goes into a pipe or a file is shortened, left out or wrapped, so one fact stays on one line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

UNKNOWN = 80
"""Columns of a terminal that does not tell."""

_LONGEST = 9
"""Digits of ``COLUMNS``; a longer text is not a width, and Python refuses to read one of arbitrary length."""


def terminal_width(environ: Mapping[str, str], stream: TextIO | None) -> int | None:
    """Columns of the terminal behind a stream; None if there is none."""
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdecimal() and len(columns) <= _LONGEST and int(columns):
        return int(columns)
    try:
        if stream is None or not stream.isatty():
            return None
        return os.get_terminal_size(stream.fileno()).columns or UNKNOWN
    except (OSError, ValueError):
        return UNKNOWN
