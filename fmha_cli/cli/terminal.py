"""The width to which tables and pages are fitted."""

from __future__ import annotations

from collections.abc import Mapping
from shutil import get_terminal_size

from fmha_cli.report.fitting import LEAST

PIPED = 116
"""Columns where the output does not go to a terminal."""


def terminal_width(environ: Mapping[str, str]) -> int:
    """Columns of the terminal; ``COLUMNS`` overrides what the terminal says, as for other programs."""
    columns = environ.get("COLUMNS", "")
    own = int(columns) if columns.isascii() and columns.isdecimal() else 0
    return max(own or get_terminal_size((PIPED, 24)).columns, LEAST)
