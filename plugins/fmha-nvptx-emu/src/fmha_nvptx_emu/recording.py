"""``Recording``: the stand-in driver of this process records launches in place of executing them.

Tests of a CUDA backend use it with unmodified cuda-python: the driver accepts cubins, keeps each launch with its parameter
bytes, and a Python model may do a kernel's work. ``core/recording.hpp`` lists the settings of the simulated device and the
faults that a test can plant. Build the library with ``building.build_recorder``, or take ``building.build_emulator``'s.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONG_NS = 10_000_000
"""A kernel of this length is not replayed; a numpy model would take minutes."""
VARIABLE = "FMHA_EMU_RECORD"
"""Environment variable that describes the simulated device to a process that :class:`Recording` does not reach."""


@dataclass(frozen=True)
class Launch:
    """One recorded launch.

    Attributes:
        shared: dynamic shared memory, in bytes. parameters: the packed parameters that the kernel would get.
        replayed: whether it came from a graph.
    """

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    parameters: bytes
    replayed: bool


Model = Callable[[Launch], int | None]
"""Does a kernel's work on the simulated device's memory, at real addresses of this process. A returned number is the
kernel's CUDA error.
"""


class _Launch(ctypes.Structure):
    _fields_ = (
        ("symbol", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint64),
        ("parameters", ctypes.c_void_p),
        ("parameter_bytes", ctypes.c_uint64),
        ("replayed", ctypes.c_uint32),
    )

    def value(self) -> Launch:
        grid, block = tuple(self.grid), tuple(self.block)
        data = ctypes.string_at(self.parameters, self.parameter_bytes) if self.parameter_bytes else b""
        return Launch(
            self.symbol.decode("ascii"),
            (grid[0], grid[1], grid[2]),
            (block[0], block[1], block[2]),
            self.shared,
            data,
            bool(self.replayed),
        )


_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Launch))
_MODEL_RAISED = 719
"""CUDA_ERROR_LAUNCH_FAILED: the result of a kernel whose model raised."""


class Recording:
    """The stand-in of this process. Load it before cuda-python's first call, and only if no real driver is loaded.

    Args:
        settings: the simulated device and planted faults, as ``core/recording.hpp`` describes them.

    Raises:
        ValueError: settings that are not understood.
    """

    def __init__(self, path: Path, **settings: object) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
        for name in ("recorded_launches", "bytes_in_use", "objects", "graph_launches"):
            self._entry(name).restype = ctypes.c_uint64
        self._entry("complaint").restype = ctypes.c_char_p
        self._hook: Any = None
        self.faults: list[BaseException] = []
        """The exceptions that models raised."""
        self.play(**settings)

    def _entry(self, name: str) -> Any:
        return getattr(self.library, f"emu_{name}")  # getattr caches the function, and so its restype

    def play(self, **settings: object) -> None:
        """Change the device or plant a fault."""
        text = settings_text(**settings)
        if not self._entry("record")(text.encode()):
            raise ValueError(f"the stand-in driver does not understand {text!r}")

    def model(self, run: Model | None) -> None:
        """From now on, run this Python model for every kernel; None removes it."""
        if run is None:
            self._entry("record_hook")(None)
            self._hook = None
            return

        def call(launch: Any) -> int:
            try:
                return run(launch.contents.value()) or 0
            except BaseException as fault:  # noqa: BLE001 - ctypes would swallow it; the kernel fails instead
                self.faults.append(fault)
                return _MODEL_RAISED

        self._hook = _HOOK(call)
        self._entry("record_hook")(self._hook)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The kernels run since the last :meth:`forget`, including those of graphs."""
        out = []
        for index in range(self._entry("recorded_launches")()):
            found = _Launch()
            self._entry("recorded")(ctypes.c_uint64(index), ctypes.byref(found))
            out.append(found.value())
        return tuple(out)

    def holds(self, address: int, size: int) -> bool:
        """Whether these bytes lie in one allocation of the simulated device."""
        return bool(self._entry("holds")(ctypes.c_uint64(address), ctypes.c_uint64(size)))

    def forget(self) -> None:
        """Forget the launches so far."""
        self._entry("record_forget")()

    @property
    def complaint(self) -> str:
        """The stand-in's message about its last refusal."""
        return str(self._entry("complaint")().decode())

    @property
    def bytes_in_use(self) -> int:
        """Device memory that was allocated and not freed."""
        return int(self._entry("bytes_in_use")())

    @property
    def objects(self) -> int:
        """Streams, events, modules and graphs that were created and not destroyed."""
        return int(self._entry("objects")())

    @property
    def graph_launches(self) -> int:
        return int(self._entry("graph_launches")())


def settings_text(**settings: object) -> str:
    """Settings in the form that ``VARIABLE`` takes."""
    return ";".join(f"{key}={value}" for key, value in settings.items())
