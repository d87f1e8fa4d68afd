"""``HipSession``: the base of sessions on AMD devices. Stages are timed from one event to the next, on one stream.

``HipKernel`` loads a code object and launches its kernel through the library itself, because hip-python packs arguments by
the types of Python objects.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from fmha_cli.backends.gpu.devices import device_number
from fmha_cli.backends.gpu.launching import PackedArguments, Shape
from fmha_cli.backends.gpu.session import GpuSession
from fmha_cli.backends.hip.runtime import Hip
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.plan import Plan


class HipKernel:
    """One kernel of a code object on the current device.

    Raises:
        DriverError: H001, the code object does not load (it is damaged or for another architecture), or has no such
            kernel.
        MemoryError: no device memory for its code.
    """

    def __init__(self, hip: Hip, code: bytes, symbol: str) -> None:
        self._hip = hip
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("hipModuleLoadData", ctypes.byref(self._module), code)
        try:
            self._call("hipModuleGetFunction", ctypes.byref(self._function), self._module, symbol.encode("ascii"))
        except BaseException:
            self.unload()
            raise

    def launch(self, shape: Shape, arguments: PackedArguments, stream: Any) -> None:
        """Queue the kernel in the stream.

        Raises:
            DriverError: H001, the runtime refuses the launch.
            DriverLost: H001, the context is dead.
            MemoryError: out of device memory.
            InternalError: the launch has an attribute that the runtime does not take.
        """
        if shape.cluster > 1 or shape.dependent:
            raise InternalError("a launch on an AMD device has neither clusters nor a dependence on the one before")
        numbers = [ctypes.c_uint(n) for n in (*shape.grid, *shape.block, shape.shared)]
        self._call(
            "hipModuleLaunchKernel", self._function, *numbers, ctypes.c_void_p(int(stream)), None, arguments.extra
        )

    def unload(self) -> None:
        """Unload the code object."""
        if not self._hip.lost:
            self._call("hipModuleUnload", self._module)

    def _call(self, name: str, *arguments: Any) -> None:
        self._hip.check(name, int(getattr(self._hip.library, name)(*arguments)))


S = TypeVar("S")
UNKNOWN_LLC = 256 << 20
"""Bytes assumed for an unknown last-level cache: the size of MI300's Infinity Cache, the largest so far."""


class HipSession(GpuSession[S]):
    """A backend's session derives from this class and defines its launches (``GpuSession`` has the other hooks).

    Args:
        library: a specific libamdhip64 instead of the system's.

    Raises:
        EnvironmentProblem: H002-H004, no runtime or no device; H006, the runtime does not have this device.
    """

    def __init__(self, device: DeviceFacts, library: Path | None = None) -> None:
        self._hip = Hip.open(library)
        # an emulator's runtime shows the one device that it emulates
        self._number = 0 if device.emulated else device_number(device, "hip", "H006")
        self._queue: Any = None
        self._events: tuple[Any, ...] = ()
        self._enter()
        super().__init__(device, self._hip, UNKNOWN_LLC)

    def launch(self) -> tuple[int, ...]:
        self._bound()
        stages, before = self._stages(), self._before_launch()
        if not stages:
            raise InternalError("launch before upload")
        if before is not None:
            before(self._queue)
        return self._hip.time_stages(stages, self._events, self._queue)

    def evict_caches(self) -> None:
        """Write twice the size of the last-level cache (the Infinity Cache if there is one), and wait."""
        super().evict_caches()
        self._hip.synchronize(self._queue)

    def _enter(self) -> None:
        self._hip.use(self._number)

    def _load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self._queue = self._hip.stream()
        self._events = tuple(self._hip.event() for _ in range(len(plan.stages) + 1))

    def _stream(self) -> Any:
        return self._queue

    def _unload(self) -> None:
        self._hip.destroy(self._events, self._queue)
        self._events, self._queue = (), None
