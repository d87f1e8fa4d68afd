"""What the pages are about: this checkout with all of its plugins, whatever is installed on the machine that makes them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from fmha_cli.discovery.entry_points import GROUP
from fmha_cli.discovery.registry import Registry

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = ("example", "null")
"""Plugins that are no backends to choose: one is copied by ``fmha plugins new``, the other is for tests."""


@cache
def registry() -> Registry:
    """The built-in backends and the plugins of this checkout.

    Raises:
        RuntimeError: one of them cannot be loaded.
    """
    found = Registry(entries=lambda: tuple(plugins()))
    if found.faults:
        raise RuntimeError("; ".join(f"plugin {fault.plugin}: {fault.what} ({fault.help})" for fault in found.faults))
    return found


def plugins() -> Iterator[EntryPoint]:
    """The plugins of this checkout, loaded from their own folders, by name."""
    for file in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        declared = tomllib.loads(file.read_text("utf-8"))["project"].get("entry-points", {}).get(GROUP, {})
        for name, module in declared.items():
            _load(module, file.parent / "src" / module)
            yield EntryPoint(name, module, GROUP)


def _load(name: str, folder: Path) -> None:
    """Import a package from a folder that need not be on the path.

    Raises:
        RuntimeError: another copy is imported already.
    """
    if name in sys.modules:
        if Path(str(sys.modules[name].__file__)).resolve().parent != folder:
            raise RuntimeError(f"{name} is imported from {sys.modules[name].__file__}, not from {folder}")
        return
    spec = spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{folder} is no package")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
