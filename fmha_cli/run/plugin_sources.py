"""The installed plugins that a run uses, and the files of which they consist."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from fmha_cli.discovery.plugins import Plugin
from fmha_cli.discovery.registry import Registry

_COMPILED = ("__pycache__", ".pyc")


def plugins_in_use(registry: Registry, backends: Collection[str], fills: Collection[str]) -> list[Plugin]:
    """The plugins that provide a backend or a fill of this run."""
    entries = {registry.entry_point(name) for name in backends}
    custom = set(fills) & set(registry.fills)
    return [
        plugin
        for plugin in registry.plugins
        if plugin.value in entries or (custom and custom & set(registry.brought_by(plugin)["fills"]))
    ]


def sources_of(plugin: Plugin) -> bytes:
    """A listing of a plugin's files with their digests: its module, or the whole package that the entry point names.

    An author who edits a kernel of a plugin seldom changes the version, and the cache knows no key for kernels that a
    plugin keeps in Python. Files outside the package are not covered.
    """
    module = sys.modules.get(plugin.value.partition(":")[0])
    place = getattr(module, "__file__", None)
    if module is None or place is None:
        return b""
    folder = Path(place).parent
    files = sorted(folder.rglob("*")) if hasattr(module, "__path__") else [Path(place)]
    return "".join(_lines(folder, files)).encode()


def _lines(folder: Path, files: Iterable[Path]) -> Iterable[str]:
    for path in files:
        if path.is_file() and not any(mark in str(path.relative_to(folder)) for mark in _COMPILED):
            yield f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
