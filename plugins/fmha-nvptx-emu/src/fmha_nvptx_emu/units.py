"""The emulator's C++ as translation units: a prefix that all of them share, and ``.cpp`` joined with their other headers."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from fmha_cli.plugin import Units, emulation_files, units_of
from fmha_nvptx_emu.device_facts import device_rows

SHARED = ("block.hpp", "launch.hpp", "lanes.hpp")
"""The headers of the prefix. With what they include, most units read them."""

_DRIVER = ("capi", "cubin", "driver_*", "emu_*", "fatbin", "report", "tensor_map")

JOINED = {
    "driver": _DRIVER,
    "reading": (
        "binding", "body", "certain", "contract", "inline", "layout", "lexer", "parse", "program", "regions", "rows", "runs", "types",
        "variables",
    ),
    "running": (
        "access", "block", "bulk_reduce", "capi_direct", "cluster", "interpret", "launch", "mbarrier", "named_barriers", "shared",
        "shared_remote",
    ),
}  # fmt: skip
"""The units of several files. Files of instructions stay alone: many call different functions by the same name."""

COLD = ("driver",)
"""Units where neither launches nor loads spend time: fully optimised, they would take a third of their compile longer."""

_RECORDER_ONLY = "no_executor"
"""What a library that only records has in place of the reader and executor of PTX."""


def core_files() -> dict[str, str]:
    """The texts of ``core/*.hpp`` and ``core/*.cpp`` by file name, with the ones that emulators share and the facts of
    the devices.
    """
    folder: Traversable = resources.files("fmha_nvptx_emu") / "core"
    own = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
    return {**emulation_files(), **own, "device_rows.hpp": device_rows()}


def core_units() -> Units:
    """The units of the emulator."""
    files = core_files()
    del files[f"{_RECORDER_ONLY}.cpp"]
    return units_of(files, SHARED, JOINED)


def recorder_units() -> Units:
    """The recorder as one unit: reading what its files include takes longer than compiling them."""
    units = units_of(core_files(), joined={"recorder": (*_DRIVER, _RECORDER_ONLY)})
    return Units("", {"recorder": units.texts["recorder"]})
