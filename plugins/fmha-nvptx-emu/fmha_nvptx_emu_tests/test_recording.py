"""The emulator's whole library records launches of PTX and of cubins. The core's CUDA tests use the smaller recorder."""

from __future__ import annotations

import ctypes
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu.recording import Launch, Recording

from fmha_nvptx_emu_tests.support.ptx_machine import library, module
from tests.support.builds.cubin_tiny import tiny_cubin

pytest.importorskip("cuda.bindings")

TEXT = module("st.global.u32 [%rd0], %r0;", ".param .u64 p0, .param .u32 p1")


def launched(path: str, image: bytes, name: bytes) -> tuple[tuple[Launch, ...], int, str]:
    """The launches, a word of the memory that the kernel would write, and the answer to a launch with a block too large."""
    recording = Recording(Path(path), capability="9.0")
    from cuda.bindings import driver as cuda

    def call(function: str, *arguments: Any) -> Any:
        number, *rest = getattr(cuda, function)(*arguments)
        assert int(number) == 0, (function, number, recording.complaint)
        return rest[0] if rest else None

    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
    room, back = call("cuMemAlloc", 128), np.zeros(1, np.uint32)
    call("cuMemsetD8Async", room, 7, 128, 0)
    kernel = call("cuModuleGetFunction", call("cuModuleLoadData", image), name)
    values = ((int(room), 5), (ctypes.c_uint64, ctypes.c_uint32))
    call("cuLaunchKernel", kernel, 3, 1, 1, 32, 1, 1, 64, 0, values, 0)
    (refused,) = cuda.cuLaunchKernel(kernel, 1, 1, 1, 2048, 1, 1, 0, 0, values, 0)
    call("cuMemcpyDtoH", back.ctypes.data, room, 4)
    return recording.launches, int(room), f"{int(back[0]):x} {int(refused)}"


@pytest.mark.promise("Unmodified cuda-python works on the emulated driver, which names a function that it lacks.")
@pytest.mark.parametrize(
    ("image", "name"),
    [(TEXT.encode() + b"\0", "k"), (tiny_cubin("tiny", (8, 4)), "tiny")],
    ids=["PTX", "cubin"],
)
def test_a_launch_is_recorded_and_not_executed(image: bytes, name: str) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        launches, room, rest = pool.submit(launched, library()._name, image, name.encode()).result(timeout=600)
    parameters = room.to_bytes(8, "little") + (5).to_bytes(4, "little")
    assert launches == (Launch(name, (3, 1, 1), (32, 1, 1), 64, parameters, False),)
    assert rest == "7070707 1"
