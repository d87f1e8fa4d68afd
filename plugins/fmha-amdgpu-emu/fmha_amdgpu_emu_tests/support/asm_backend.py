"""A test backend whose results come from numpy and whose findings come from a kernel.

numpy computes the right result on the host. The kernel that the variable ``ASM_CODE`` names also runs, on the device's
copy of the arena. The kernel ``k`` gets the device addresses of the arena, of Q, and of the first byte after Q.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fmha_null import NullBackend
from fmha_null.kernels import NullAlgorithm, null_kernel
from fmha_null.session import NullSession

from fmha_cli import api, plugin
from fmha_cli.backends.hip.runtime import Hip

ARCH = "gfx942"


@dataclass(frozen=True, kw_only=True)
class AsmAlgorithm(NullAlgorithm):
    """This backend has no free choices."""


class AsmSession(NullSession):
    def __init__(self, device: plugin.DeviceFacts) -> None:
        super().__init__()
        self._hip = Hip.open()
        self._hip.use(0)

    def load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        honest = null_kernel(plan.problem.dtype, plugin.Family.FWD)
        self._plan = plugin.Plan(plan.problem, (plugin.Stage(honest),))
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        library = self._hip.library
        assert library.hipModuleLoadData(ctypes.byref(module), Path(os.environ["ASM_CODE"]).read_bytes()) == 0
        assert library.hipModuleGetFunction(ctypes.byref(self._kernel), module, b"k") == 0

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        super().bind(arena, tensors, threads)
        self._host = np.frombuffer(arena, np.uint8)
        self._base = self._hip.malloc(arena.nbytes)
        q = tensors["q"]
        size = (sum((n - 1) * s for n, s in zip(q.shape, q.strides, strict=True)) + 1) * 2
        self._arguments = (self._base, self._base + q.offset, self._base + q.offset + size)

    def upload(self) -> None:
        self._hip.copy_in(self._base, self._host.ctypes.data, self._host.nbytes)

    def launch(self) -> tuple[int, ...]:
        packed = ctypes.create_string_buffer(struct.pack("<3Q", *self._arguments), 24)
        size = ctypes.c_size_t(24)
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 3)
        one = (1, 1, 1)
        status = self._hip.library.hipModuleLaunchKernel(self._kernel, *one, 64, 1, 1, 0, None, None, extra)
        if status:
            raise api.KernelFailure(f"the launch failed ({status})", code="K999")
        return super().launch()

    def close(self) -> None:
        super().close()
        self._hip.free(self._base)


class AsmBackend(NullBackend):
    name = "asm"
    algorithm = AsmAlgorithm
    runtimes = ("hip",)

    def probe(self) -> plugin.Availability:
        raise AssertionError("an emulated device is not probed")

    def archs(self) -> tuple[str, ...]:
        return (ARCH,)

    def kernels(self, arch: plugin.ArchSpec) -> Iterable[api.KernelSpec]:
        yield _kernel()

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterable[api.Decision]:
        yield api.Supported(_kernel(), (0,))

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Plan:
        return plugin.Plan(problem, (plugin.Stage(kernel),))

    def open(self, device: plugin.DeviceFacts) -> plugin.Session:
        assert device.emulated
        return AsmSession(device)


def _kernel() -> api.KernelSpec:
    return replace(
        null_kernel(plugin.DType.FP16, plugin.Family.FWD), backend="asm", arch=ARCH, algorithm=AsmAlgorithm()
    )


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [AsmBackend()]
