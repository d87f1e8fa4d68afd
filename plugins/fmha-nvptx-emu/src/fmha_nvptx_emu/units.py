"""The emulator's C++ as translation units: each ``.cpp`` joined with the headers that it includes."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from fmha_cli.api import Units, units_of
from fmha_nvptx_emu.device_facts import device_rows


def core_files() -> dict[str, str]:
    """The texts of ``core/*.hpp`` and ``core/*.cpp`` by file name, with the facts of the devices."""
    folder: Traversable = resources.files("fmha_nvptx_emu") / "core"
    own = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
    return {**own, "device_rows.hpp": device_rows()}


def core_units() -> Units:
    """The units of the emulator."""
    return units_of(core_files())
