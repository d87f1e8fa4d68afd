"""The entry points of installed plugins: found by their metadata, without importing any."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

GROUP = "fmha"
"""The entry-point group of third-party plugins."""


def installed_entry_points() -> tuple[EntryPoint, ...]:
    """Entry points of installed plugins, sorted by name."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)))
