"""The emulator's C++ as translation units: a prefix that all of them share, and each ``.cpp`` joined with its other headers."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from fmha_cli.api import Units, emulation_files, units_of
from fmha_nvptx_emu.device_facts import device_rows

SHARED = ("block.hpp", "launch.hpp", "lanes.hpp")
"""The headers of the prefix. With what they include, most units read them."""

_DRIVER = ("capi", "cubin", "fatbin", "no_executor", "report", "tensor_map")
_DRIVER_GROUPS = ("driver_", "emu_")
"""The units of a library that only records: the driver, without the reader and executor of PTX."""

_RECORDER_ONLY = ("no_executor",)


def core_files() -> dict[str, str]:
    """The texts of ``core/*.hpp`` and ``core/*.cpp`` by file name, with the ones that emulators share and the facts of
    the devices.
    """
    folder: Traversable = resources.files("fmha_nvptx_emu") / "core"
    own = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
    return {**emulation_files(), **own, "device_rows.hpp": device_rows()}


def core_units() -> Units:
    """The units of the emulator."""
    units = units_of(core_files(), SHARED)
    return Units(units.prefix, {name: text for name, text in units.texts.items() if name not in _RECORDER_ONLY})


def recorder_units() -> Units:
    """The recorder as one unit: reading what its files include takes longer than compiling them."""
    files = core_files()
    names = [name.removesuffix(".cpp") for name in sorted(files) if name.endswith(".cpp")]
    joined = "".join(f'#include "{n}.cpp"\n' for n in names if n in _DRIVER or n.startswith(_DRIVER_GROUPS))
    return Units("", {"recorder": units_of({**files, "recorder.cpp": joined}).texts["recorder"]})
