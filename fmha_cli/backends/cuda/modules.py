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

_CONFIG = (*(f"{kind}Dim{axis}" for kind in ("grid", "block") for axis in "XYZ"), "sharedMemBytes")
"""The members of ``CUlaunchConfig`` in the order of ``cuLaunchKernel``'s parameters."""


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
        extra = ctypes.addressof(arguments.extra)
        if attributes := self._attributes(shape):
            config = self._cuda.driver.CUlaunchConfig()
            for name, number in zip(_CONFIG, numbers, strict=True):
                setattr(config, name, number)
            config.hStream, config.attrs, config.numAttrs = stream, attributes, len(attributes)
            self._cuda.call("cuLaunchKernelEx", config, self._function, 0, extra)
        else:
            self._cuda.call("cuLaunchKernel", self._function, *numbers, stream, 0, extra)

    def _attributes(self, shape: Shape) -> list[Any]:
        """What ``cuLaunchKernel`` has no parameter for."""
        driver, out = self._cuda.driver, []
        if shape.cluster > 1:
            out.append(driver.CUlaunchAttribute())
            out[-1].id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            size = out[-1].value.clusterDim
            size.x, size.y, size.z = shape.cluster, 1, 1
        if shape.dependent:
            out.append(driver.CUlaunchAttribute())
            out[-1].id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            out[-1].value.programmaticStreamSerializationAllowed = 1
        return out

    def unload(self) -> None:
        """Unload the cubin."""
        if not self._cuda.lost:
            self._cuda.call("cuModuleUnload", self._module)
