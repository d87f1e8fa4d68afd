"""The library inside this process. It is loaded before any code opens the HIP runtime, and controlled through its C interface."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fmha_cli.api import DeviceFacts, EmulatorOptions, EnvironmentProblem, Observed, Region, from_json, llvm_tool

_TOOLS = {"FMHA_EMU_OBJDUMP": "llvm-objdump", "FMHA_EMU_BUNDLER": "clang-offload-bundler"}
"""Variable -> the program that the library starts. A variable that the user has set stays."""


class _Region(ctypes.Structure):
    """``EmuRegion`` of ``core/executor.cpp``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("writable", ctypes.c_int),
    )


class AttachedLibrary:
    """See ``fmha_cli.domain.emulation.Attached`` for the contract of the methods.

    Raises:
        EnvironmentProblem: Z010, the library does not load; Z011, it has no such device.
    """

    def __init__(self, library: Path, device: DeviceFacts, options: EmulatorOptions) -> None:
        os.environ.update(variables(device, options))  # the library reads some of them while it loads
        try:
            self._library = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
            self._take = self._entry("emu_take", ctypes.c_char_p)
            self._options = self._entry("emu_options", None, ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
            self._watch = self._entry(
                "emu_watch", None, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(_Region), ctypes.c_uint64
            )
            play = self._entry("emu_device", ctypes.c_int, ctypes.c_char_p)
        except (OSError, AttributeError) as fault:
            raise EnvironmentProblem(
                "the emulator's library does not load", code="Z010", where=str(library), why=str(fault)
            ) from fault
        if play(_arch(device).encode()):
            raise EnvironmentProblem(
                f"the emulator's library has no device {device.id}", code="Z011", where=str(library)
            )
        self._wanted = options
        self._entry("emu_turn", None, ctypes.c_uint64)(options.turn)
        self.order(options.seed)

    def _entry(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, list(arguments)
        return function

    def order(self, seed: int) -> None:
        self._options(seed & (2**64 - 1), self._wanted.threads, int(self._wanted.checks))

    def watch(self, start: int, size: int, regions: Sequence[Region]) -> None:
        rows = (_Region * len(regions))(*(_Region(r.name.encode(), r.start, r.end, int(r.writable)) for r in regions))
        self._watch(start, size, rows, len(regions))

    def take(self) -> Observed:
        return from_json(Observed, json.loads(self._take().decode("utf-8", "replace")))


def variables(device: DeviceFacts, options: EmulatorOptions) -> dict[str, str]:
    """The environment variables that the library reads (``core/executor.cpp``, ``core/disassembly.cpp``)."""
    out = {
        "FMHA_EMU_ARCH": _arch(device),
        "FMHA_EMU_CHECKS": str(int(options.checks)),
        "FMHA_EMU_SEED": str(options.seed),
        "FMHA_EMU_THREADS": str(options.threads),
        "FMHA_EMU_TURN": str(options.turn),
    }
    if options.cache is not None:
        out["FMHA_EMU_CACHE"] = options.cache
    for variable, name in _TOOLS.items():
        found = None if os.environ.get(variable) else llvm_tool(name)
        if found is not None:
            out[variable] = str(found)
    return out


def _arch(device: DeviceFacts) -> str:
    return device.id.partition(":")[2]
