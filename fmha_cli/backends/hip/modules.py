"""Code objects in a device: load one, and launch its kernel with packed argument bytes.

The calls go through the library itself, because hip-python packs arguments by the types of Python objects.
"""

from __future__ import annotations

import ctypes
from typing import Any

from fmha_cli.backends.hip.runtime import Hip

_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3
"""``HIP_LAUNCH_PARAM_BUFFER_POINTER``, ``_BUFFER_SIZE`` and ``_END`` of ``hip_runtime_api.h``."""


class HipArguments:
    """The bytes of a kernel's arguments, kept for repeated launches.

    Args:
        data: the arguments at the offsets of the kernel's own layout.
    """

    def __init__(self, data: bytes) -> None:
        self._bytes = ctypes.create_string_buffer(data, len(data))
        self._size = ctypes.c_size_t(len(data))
        self.extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, ctypes.addressof(self._bytes), _BUFFER_SIZE, ctypes.addressof(self._size), _END
        )
        """The array that ``hipModuleLaunchKernel`` takes as ``extra``."""


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

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: HipArguments,
        stream: int,
    ) -> None:
        """Queue the kernel in the stream. ``shared`` is the dynamic part of the group's memory, bytes.

        Raises:
            DriverError: H001, the runtime refuses the launch.
            DriverLost: H001, the context is dead.
            MemoryError: out of device memory.
        """
        numbers = [ctypes.c_uint(n) for n in (*grid, *block, shared)]
        self._call("hipModuleLaunchKernel", self._function, *numbers, ctypes.c_void_p(stream), None, arguments.extra)

    def unload(self) -> None:
        """Unload the code object."""
        if not self._hip.lost:
            self._call("hipModuleUnload", self._module)

    def _call(self, name: str, *arguments: Any) -> None:
        self._hip.check(name, int(getattr(self._hip.library, name)(*arguments)))
