"""Cubins in a context: load one, and launch its kernel with packed argument bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.gpu.launching import PackedArguments, Shape

SHARED_WITHOUT_CONSENT = 48 << 10
"""Bytes of dynamic shared memory that a launch may request unless the function has opted in to more. Source: CUDA C++
Programming Guide, "Shared Memory" of compute capability 7.x and later."""


class CudaKernel:
    """One kernel of a cubin in the current context.

    Raises:
        DriverError: N001, the cubin does not load (it is damaged or for another architecture), or has no such kernel.
        MemoryError: no device memory for its code.
    """

    def __init__(self, cuda: Cuda, cubin: bytes, symbol: str) -> None:
        self._cuda = cuda
        self._module = cuda.call("cuModuleLoadData", cubin)
        try:
            self._function = cuda.call("cuModuleGetFunction", self._module, symbol.encode("ascii"))
        except BaseException:
            self.unload()
            raise
        self._shared = SHARED_WITHOUT_CONSENT

    def allow_shared(self, size: int) -> None:
        """Allow launches with this much dynamic shared memory.

        Raises:
            DriverError: N001, the device has less.
        """
        if size > self._shared:
            kind = self._cuda.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._cuda.call("cuFuncSetAttribute", self._function, kind, size)
            self._shared = size

    def launch(self, shape: Shape, arguments: PackedArguments, stream: Any) -> None:
        """Queue the kernel in the stream.

        Raises:
            DriverError: N001, the driver refuses the launch.
            DriverLost: N001, the context is dead.
            MemoryError: out of device memory.
        """
        numbers: Sequence[int] = (*shape.grid, *shape.block, shape.shared)
        self._cuda.call("cuLaunchKernel", self._function, *numbers, stream, 0, ctypes.addressof(arguments.extra))

    def unload(self) -> None:
        """Unload the cubin."""
        if not self._cuda.lost:
            self._cuda.call("cuModuleUnload", self._module)
