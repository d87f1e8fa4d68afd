"""The emulator's C++ as translation units: a prefix that all of them share, and ``.cpp`` joined with their other headers."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from fmha_amdgpu_emu.device_facts import arch_facts
from fmha_cli.plugin import Units, emulation_files, units_of

SHARED = ("lanes.hpp", "launch.hpp", "report.hpp", "tables.hpp", "formats.hpp")
"""The headers of the prefix. With what they include, most units read them."""

JOINED = {
    "hip": ("hip_*",),
    "host": ("capi_launch", "device_heap", "emu_*", "launch", "report"),
    "reading": (
        "bind", "describe", "disassembly", "elf", "listing", "metadata", "modifiers", "observed", "operands", "program",
        "sha256", "tables",
    ),
    "running": (
        "access", "barrier", "control", "definedness", "dpp", "dual", "executor", "gpr_index", "lds_banks", "lds_books",
        "scheduler", "tracking", "waits",
    ),
}  # fmt: skip
"""The units of several files. Files of instructions stay alone: many call different functions by the same name."""


def core_files() -> dict[str, str]:
    """The texts of ``core/*.hpp`` and ``core/*.cpp`` by file name, with the ones that emulators share and the facts of the
    architectures. The files of the HIP host API (``hip_*``) serve other sinks than the emulator, too.
    """
    folder: Traversable = resources.files("fmha_amdgpu_emu") / "core"
    own = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
    return {**emulation_files(), **own, "arch_facts.hpp": arch_facts()}


def core_units() -> Units:
    """The units of the emulator."""
    return units_of(core_files(), SHARED, JOINED)
