"""Tables of the pages of results, each made from data."""

from __future__ import annotations

from collections.abc import Callable

TABLES: dict[str, Callable[[], str]] = {}
"""The function of each name that stands in ``<!-- table NAME -->``."""
