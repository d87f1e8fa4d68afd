"""A library that emulates a device inside this process: loaded before any code opens the runtime that it replaces.

Every emulator's library has the same C interface: ``emu_device``, ``emu_options``, ``emu_turn``, ``emu_watch`` and
``emu_take``.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fmha_cli.domain.codec import from_json
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import EmulatorOptions, Observed, Region, merged, summed
from fmha_cli.domain.errors import EnvironmentProblem


class _Region(ctypes.Structure):
    """``EmuRegion`` of the libraries."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("writable", ctypes.c_int),
    )


class EmulatorLibrary:
    """See ``fmha_cli.domain.emulation.Attached`` for the contract of the methods.

    Args:
        variables: environment variables that the library reads, some of them while it loads.

    Raises:
        EnvironmentProblem: Z010, the library does not load; Z011, it has no such device.
    """

    def __init__(
        self, library: Path, device: DeviceFacts, options: EmulatorOptions, variables: Mapping[str, str]
    ) -> None:
        os.environ.update(variables)
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
        if play(device.id.partition(":")[2].encode()):
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


def variables_of(device: DeviceFacts, options: EmulatorOptions) -> dict[str, str]:
    """The environment variables that every library reads."""
    return {
        "FMHA_EMU_ARITH": options.arithmetic.value,
        "FMHA_EMU_ARCH": device.id.partition(":")[2],
        "FMHA_EMU_CAREFUL": str(int(options.careful)),
        "FMHA_EMU_CHECKS": str(int(options.checks)),
        "FMHA_EMU_SEED": str(options.seed),
        "FMHA_EMU_THREADS": str(options.threads),
        "FMHA_EMU_TURN": str(options.turn),
    }


def read_report(text: str) -> Observed:
    """All launches of a report, summed; the fault is the first one.

    Raises:
        ValueError: a line does not report a launch.
    """
    launches = [from_json(Observed, json.loads(line), "launch") for line in text.splitlines() if line.strip()]
    return Observed(
        merged(finding for launch in launches for finding in launch.findings),
        summed(counts for launch in launches for counts in launch.executed),
        next((launch.fault for launch in launches if launch.fault), None),
    )
