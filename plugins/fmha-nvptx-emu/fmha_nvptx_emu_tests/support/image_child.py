"""A kernel from NVRTC, as an image of its text and its cubin. Started with the library's path and the architecture; prints what the driver says as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

VALUES = 96
"""Values that each thread keeps at once."""
SOURCE = f"""extern "C" __global__ void many(float* p) {{
  float x[{VALUES}];
#pragma unroll
  for (int k = 0; k < {VALUES}; ++k) x[k] = p[k * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < {VALUES}; ++k) p[k * 1024 + threadIdx.x] = x[{VALUES} - 1 - k];
}}
"""


def compiled(arch: str) -> tuple[bytes, bytes]:
    """The kernel's PTX and cubin."""
    from cuda.bindings import nvrtc

    def call(name: str, *arguments: Any) -> Any:
        number, *rest = getattr(nvrtc, name)(*arguments)
        assert int(number) == 0, (name, number)
        return rest[0] if rest else None

    program = call("nvrtcCreateProgram", SOURCE.encode(), b"many.cu", 0, [], [])
    call("nvrtcCompileProgram", program, 1, [f"--gpu-architecture={arch}".encode()])
    found = []
    for kind in ("PTX", "CUBIN"):
        data = b" " * call(f"nvrtcGet{kind}Size", program)
        call(f"nvrtcGet{kind}", program, data)
        found.append(data)
    return found[0].rstrip(b"\0"), found[1]


def main(library: str, arch: str) -> dict[str, Any]:
    os.environ["FMHA_EMU_ARCH"] = arch
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
    from cuda.bindings import driver as cuda

    from fmha_cli.backends.cuda.emulated_image import fatbin
    from fmha_cli.toolchain.cuda.cubin import Cubin

    def call(name: str, *arguments: Any) -> Any:
        number, *rest = getattr(cuda, name)(*arguments)
        assert int(number) == 0, (name, cuda.cuGetErrorString(number)[1])
        return rest[0] if rest else None

    def told(name: str, *arguments: Any) -> str:
        number, *rest = getattr(cuda, name)(*arguments)
        return (
            f"{int(number)} {cuda.cuGetErrorString(number)[1].decode()}" if int(number) else str(rest[0] if rest else 0)
        )

    ptx, cubin = compiled(arch)
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
    room = call("cuMemAlloc", 4 * 1024 * VALUES)
    call("cuMemsetD8", room, 0, 4 * 1024 * VALUES)
    out: dict[str, Any] = {"stated": Cubin(cubin).kernels[0].registers}
    for name, image in (("both", fatbin(ptx, cubin)), ("text", ptx + b"\0")):
        kernel = call("cuModuleGetFunction", call("cuModuleLoadData", image), b"many")
        out[name] = {
            "registers": told("cuFuncGetAttribute", cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, kernel),
            "resident": told("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, 256, 0),
            **{
                str(threads): told(
                    "cuLaunchKernel", kernel, 1, 1, 1, threads, 1, 1, 0, 0, ((int(room),), (ctypes.c_uint64,)), 0
                )
                for threads in (256, 1024)
            },
        }
    return out


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
