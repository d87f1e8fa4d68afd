"""The entry points of installed plugins: found by their metadata, without importing any."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "fmha"
"""The entry-point group of third-party plugins."""

_METADATA = (".dist-info", ".egg-info")


def installed_entry_points() -> tuple[EntryPoint, ...]:
    """Entry points of installed plugins, sorted by name."""
    declared = declaring(sys.path)
    if declared == ():
        return ()  # without a slow import (12 ms)
    from importlib.metadata import Distribution, EntryPoints, entry_points

    if declared is None:
        points = entry_points(group=GROUP)
    else:
        points = EntryPoints(p for at in declared for p in Distribution.at(at).entry_points if p.group == GROUP)
    return tuple(sorted(points, key=lambda e: (e.name, e.value)))


def declaring(folders: Iterable[str]) -> tuple[Path, ...] | None:
    """The metadata of the distributions that declare the group; None where an archive is on the path, which may hold one.

    ``importlib.metadata.entry_points`` would read every distribution anew each time (a command asks two or three times). As there,
    the first of several distributions of one name counts.
    """
    found: dict[str, Path | None] = {}
    for folder in folders:
        place = os.path.abspath(folder)
        if os.path.isfile(place):
            return None
        if os.path.isdir(place):
            found = {**_distributions(place, os.stat(place).st_mtime_ns), **found}
    return tuple(path for path in found.values() if path is not None)


@lru_cache(maxsize=256)
def _distributions(folder: str, changed: int) -> Mapping[str, Path | None]:
    """The distributions in a folder by name: the metadata of each one that declares the group, else None.

    Args:
        changed: when something was last installed in it, or removed.
    """
    section, found = f"[{GROUP}]", dict[str, Path | None]()
    for entry in os.listdir(folder):
        if entry.endswith(_METADATA):
            file = Path(folder, entry, "entry_points.txt")
            declares = file.is_file() and section in file.read_text("utf-8", errors="replace")
            name = re.sub(r"[-_.]+", "_", os.path.splitext(entry)[0].partition("-")[0]).lower()
            found.setdefault(name, file.parent if declares else None)
    return found
