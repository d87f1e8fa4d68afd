"""Unmodified cuda-python on the emulator's driver. Started with the library's path and a device; prints what it saw as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

import numpy as np

TEXT = """.version 8.7
.target sm_75
.address_size 64
.global .align 4 .u32 bias = 100;
.visible .entry add(.param .u64 p0, .param .u32 p1) .maxntid 256 {
.reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 4 .b8 s[4096];
ld.param.u64 %rd0, [p0]; ld.param.u32 %r1, [p1]; mov.u32 %r0, %tid.x;
ld.global.u32 %r2, [bias]; add.s32 %r1, %r1, %r2; mad.wide.u32 %rd1, %r0, 4, %rd0;
st.global.u32 [%rd1], %r1; ret; }
"""


def main(library: str, arch: str) -> dict[str, Any]:
    os.environ["FMHA_EMU_ARCH"] = arch
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
    from cuda.bindings import driver as cuda

    def call(name: str, *arguments: Any) -> Any:
        number, *rest = getattr(cuda, name)(*arguments)
        assert int(number) == 0, (name, cuda.cuGetErrorString(number)[1])
        return rest[0] if len(rest) == 1 else rest

    def refused(name: str, *arguments: Any) -> str:
        number = getattr(cuda, name)(*arguments)[0]
        text: bytes = cuda.cuGetErrorString(number)[1]
        return f"{int(number)} {text.decode()}"

    out: dict[str, Any] = {}
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    kinds = cuda.CUdevice_attribute
    out["name"] = call("cuDeviceGetName", 64, device).partition(b"\0")[0].decode()
    out["capability"] = [
        call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{n}"), device)
        for n in ("MAJOR", "MINOR")
    ]
    out["early"] = refused("cuMemAlloc", 16)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", device))
    module = call("cuModuleLoadData", TEXT.encode() + b"\0")
    function = call("cuModuleGetFunction", module, b"add")
    address, size = call("cuModuleGetGlobal", module, b"bias")
    out["global"] = size
    room = call("cuMemAlloc", 128)
    stream = call("cuStreamCreate", 0)

    def got() -> int:
        back = np.zeros(32, np.uint32)
        call("cuMemcpyDtoH", back.ctypes.data, room, 128)
        assert (back == back[0]).all()
        return int(back[0])

    def one_by_one(value: int) -> Any:
        return ((int(room), value), (ctypes.c_uint64, ctypes.c_uint32))

    call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, one_by_one(1), 0)
    out["launched"] = got()
    call("cuMemcpyHtoD", address, np.array([200], np.uint32).ctypes.data, 4)
    config = cuda.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    config.blockDimX, config.hStream = 32, stream
    call("cuLaunchKernelEx", config, function, one_by_one(2), 0)
    out["launched ex"] = got()
    size = cuda.CUlaunchAttribute()
    size.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    size.value.clusterDim.x, size.value.clusterDim.y, size.value.clusterDim.z = 2, 1, 1
    config.gridDimX, config.attrs, config.numAttrs = 2, [size], 1
    out["cluster"] = refused("cuLaunchKernelEx", config, function, one_by_one(2), 0)
    config.gridDimX = 3
    out["uneven"] = refused("cuLaunchKernelEx", config, function, one_by_one(2), 0)
    call("cuStreamBeginCapture", stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, one_by_one(3), 0)
    graph = call("cuStreamEndCapture", stream)
    out["captured"] = got()
    call("cuGraphLaunch", call("cuGraphInstantiate", graph, 0), stream)
    out["replayed"] = got()
    call("cuMemsetD8Async", room, 255, 128, stream)
    out["filled"] = got()
    events = [call("cuEventCreate", 0) for _ in range(2)]
    call("cuEventRecord", events[0], stream)
    call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, one_by_one(1), 0)
    call("cuEventRecord", events[1], stream)
    out["launch ns"] = call("cuEventElapsedTime", *events) * 1e6
    out["threads"] = refused("cuLaunchKernel", function, 1, 1, 1, 512, 1, 1, 0, stream, one_by_one(1), 0)
    out["shared"] = refused("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 50_000, stream, one_by_one(1), 0)
    most = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    out["optin"] = refused("cuFuncSetAttribute", function, most, 240_000)
    out["registers"] = refused("cuFuncGetAttribute", cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)
    out["occupancy"] = call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, 256, 0)
    out["cubin"] = refused("cuModuleLoadData", b"\x7fELF" + bytes(64))
    out["newer"] = refused("cuModuleLoadData", TEXT.replace("sm_75", "sm_120a").encode() + b"\0")
    out["bad"] = refused("cuModuleLoadData", TEXT.replace("add.s32", "sad.s32").encode() + b"\0")
    try:
        cuda.cuMemAllocManaged(16, 1)
        out["missing"] = "found"
    except RuntimeError as fault:
        out["missing"] = str(fault)
    call("cuModuleUnload", module)
    call("cuMemFree", room)
    return out


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
