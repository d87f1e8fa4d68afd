"""A device through unmodified hip-python, used as in a user's program."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

U32 = ctypes.c_uint32


class HipFault(RuntimeError):
    """A HIP call that failed; ``number`` is its error."""

    def __init__(self, name: str, number: int, text: str) -> None:
        super().__init__(f"{name}: {text} ({number})")
        self.number = number


class Device:
    """The first device; ``library`` is loaded before hip-python looks for the runtime by its name."""

    def __init__(self, library: str, code: str) -> None:
        self.library = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
        self.library.emu_take.restype = ctypes.c_char_p
        from hip import hip

        self.hip: Any = hip
        self.module = self.call("hipModuleLoad", str(Path(code)).encode())
        self.wave = int(self.properties().warpSize)

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """The result of a call. Raises HipFault."""
        status, *values = getattr(self.hip, name)(*arguments, **named)
        if int(status):
            raise HipFault(name, int(status), str(self.hip.hipGetErrorString(status)[1]))
        return values[0] if len(values) == 1 else tuple(values)

    def properties(self) -> Any:
        """``hipDeviceProp_t``."""
        found = self.hip.hipDeviceProp_t()
        self.call("hipGetDeviceProperties", found, 0)
        return found

    def has(self, kernel: str) -> bool:
        """Whether the module contains a kernel."""
        return int(self.hip.hipModuleGetFunction(self.module, kernel.encode())[0]) == 0

    def launch(
        self, kernel: str, grid: int | tuple[int, ...], block: int | tuple[int, ...], *arguments: Any, lds: int = 0
    ) -> None:
        """Run a kernel. Arrays are copied to the device and back; other arguments are passed unchanged (ctypes)."""
        function = self.call("hipModuleGetFunction", self.module, kernel.encode())
        places: list[tuple[Any, Any]] = []
        passed = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                place = self.call("hipMalloc", argument.nbytes)
                self.call("hipMemcpy", place, argument, argument.nbytes, self.hip.hipMemcpyKind.hipMemcpyHostToDevice)
                places.append((place, argument))
                argument = place
            passed.append(argument)
        sizes = [(n if isinstance(n, tuple) else (n,)) for n in (grid, block)]
        shape = [*(*sizes[0], 1, 1)[:3], *(*sizes[1], 1, 1)[:3]]
        try:
            self.call(
                "hipModuleLaunchKernel",
                function, *shape, sharedMemBytes=lds, stream=None, kernelParams=None, extra=tuple(passed),
            )  # fmt: skip
            self.call("hipDeviceSynchronize")
            for place, array in places:
                self.call("hipMemcpy", array, place, array.nbytes, self.hip.hipMemcpyKind.hipMemcpyDeviceToHost)
        finally:
            for place, _ in places:
                self.call("hipFree", place)

    def observed(self) -> dict[str, Any]:
        """The emulator's observations since the last call."""
        found: dict[str, Any] = json.loads(self.library.emu_take())
        return found
