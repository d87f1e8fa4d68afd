"""Loads fatbins into the emulator's driver. Started with the library's path, a device and files; prints a line for each.

A line is the number that the kernel ``add`` of the chosen text adds, or the driver's words.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(library: str, arch: str, *files: str) -> None:
    os.environ["FMHA_EMU_ARCH"] = arch
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
    from cuda.bindings import driver as cuda

    def call(name: str, *arguments: Any) -> Any:
        number, *rest = getattr(cuda, name)(*arguments)
        if int(number):
            text: bytes = cuda.cuGetErrorString(number)[1]
            raise RuntimeError(f"{int(number)} {text.decode()}")
        return rest[0] if rest else None

    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
    room, back = call("cuMemAlloc", 128), np.zeros(32, np.uint32)
    for file in files:
        image = ctypes.create_string_buffer(Path(file).read_bytes())  # a fatbin has zeros inside
        wrapper = np.array([0x466243B1 | 1 << 32, ctypes.addressof(image), 0], np.uint64)
        wrapped = file.endswith(".wrapped")
        try:
            module = call(
                "cuModuleLoadFatBinary" if wrapped else "cuModuleLoadData",
                wrapper.ctypes.data if wrapped else image.raw,
            )
        except RuntimeError as fault:
            print(fault)
            continue
        function = call("cuModuleGetFunction", module, b"add")
        call(
            "cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, ((int(room), 0), (ctypes.c_uint64, ctypes.c_uint32)), 0
        )
        call("cuMemcpyDtoH", back.ctypes.data, room, 128)
        print(back[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
