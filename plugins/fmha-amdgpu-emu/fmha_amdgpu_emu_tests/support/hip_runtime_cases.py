"""Tests of the emulator's HIP runtime beyond kernel launches, called through hip-python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.hip_compare import same
from fmha_amdgpu_emu_tests.support.hip_device import U32, Device, HipFault

Case = Callable[[Device], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a case under its name."""
    CASES[function.__name__] = function
    return function


def fails(number: int, action: Callable[[], Any]) -> None:
    """Assert that the action fails with this HIP error."""
    with pytest.raises(HipFault) as caught:
        action()
    assert caught.value.number == number, caught.value


def kinds(device: Device) -> tuple[Any, Any, Any]:
    """The copy kinds: in, out and within."""
    kind = device.hip.hipMemcpyKind
    return kind.hipMemcpyHostToDevice, kind.hipMemcpyDeviceToHost, kind.hipMemcpyDeviceToDevice


@case
def properties(device: Device) -> None:
    found = device.properties()
    arch = found.gcnArchName.decode().partition(":")[0]
    assert found.name.decode() == f"AMD {arch} (emulated)"
    assert found.warpSize == (64 if arch.startswith("gfx9") else 32)
    assert found.multiProcessorCount >= 32
    assert found.sharedMemPerBlock in (65536, 163840)
    assert found.maxThreadsPerBlock == 1024
    assert found.totalGlobalMem > 1 << 30
    ask = device.hip.hipDeviceAttribute_t
    for attribute, want in (
        (ask.hipDeviceAttributeWarpSize, found.warpSize),
        (ask.hipDeviceAttributeMultiprocessorCount, found.multiProcessorCount),
        (ask.hipDeviceAttributeMaxSharedMemoryPerBlock, found.sharedMemPerBlock),
        (ask.hipDeviceAttributeComputeCapabilityMajor, found.major),
        (ask.hipDeviceAttributeMaxThreadsPerMultiProcessor, found.maxThreadsPerMultiProcessor),
        (ask.hipDeviceAttributeMaxGridDimX, 0x7FFFFFFF),
    ):
        assert device.call("hipDeviceGetAttribute", attribute, 0) == want, attribute
    assert str(device.call("hipDeviceGetName", 64, 0)).encode() == found.name
    assert device.call("hipGetDeviceCount") == 1
    fails(101, lambda: device.call("hipSetDevice", 1))


@case
def error_texts(device: Device) -> None:
    hip = device.hip
    texts = {}
    for member in hip.hipError_t:
        if member.name == "hipErrorTbd":  # a placeholder
            continue
        assert str(hip.hipGetErrorName(member)[1]) == member.name, member
        texts[int(member)] = str(hip.hipGetErrorString(member)[1])
    assert len(set(texts.values())) > 60
    assert texts[2] == "out of memory"
    device.hip.hipGetLastError()
    fails(1, lambda: device.call("hipFree", 12345))
    assert int(device.hip.hipPeekAtLastError()[0]) == 1
    assert int(device.hip.hipGetLastError()[0]) == 1
    assert int(device.hip.hipGetLastError()[0]) == 0


@case
def memory_of_every_kind(device: Device) -> None:
    into, out, within = kinds(device)
    free, total = device.call("hipMemGetInfo")
    places = [
        device.call("hipMalloc", 1000),
        device.call("hipMallocAsync", 1000, None),
        device.call("hipMallocManaged", 1000, 1),
    ]
    host = device.call("hipHostMalloc", 1000, 0)
    assert device.call("hipMemGetInfo") == (free - 4000, total)
    data, back = np.arange(250, dtype=np.uint32), np.zeros(250, np.uint32)
    for place in places:
        assert int(place) % 256 == 0
        device.call("hipMemcpy", back, place, 1000, out)
        assert (back == 0xFFFFFFFF).all(), "fresh memory holds NaN"
        device.call("hipMemcpy", place, data, 1000, into)
    device.call("hipMemcpy", host, places[1], 1000, out)
    device.call("hipMemcpy", places[0], host, 1000, into)
    device.call("hipMemcpy", places[2], places[0], 1000, within)
    device.call("hipMemcpy", back, places[2], 1000, out)
    same(back, data)
    fails(1, lambda: device.call("hipMemcpy", back, places[0], 1001, out))
    fails(1, lambda: device.call("hipMemcpy", back, places[0], 1000, into))
    attributes = device.hip.hipPointerAttribute_t()
    for place, kind in ((places[0], "Device"), (places[2], "Managed"), (host, "Host")):
        device.call("hipPointerGetAttributes", attributes, place)
        assert attributes.type == getattr(device.hip.hipMemoryType, f"hipMemoryType{kind}")
        assert int(attributes.devicePointer) == int(place)
    device.call("hipFreeAsync", places[1], None)
    for place in (places[0], places[2]):
        device.call("hipFree", place)
    device.call("hipHostFree", host)
    fails(1, lambda: device.call("hipFree", places[0]))
    assert device.call("hipMemGetInfo") == (free, total)
    fails(2, lambda: device.call("hipMalloc", 1 << 50))


@case
def registered_memory(device: Device) -> None:
    x = np.zeros(64, np.float32)
    page = np.zeros(64, np.float32)
    device.call("hipHostRegister", page, page.nbytes, 0)
    assert int(device.call("hipHostGetDevicePointer", page, 0)) == page.ctypes.data
    function = device.call("hipModuleGetFunction", device.module, b"beyond")
    extra = (ctypes.c_void_p(page.ctypes.data), U32(0))
    device.call(
        "hipModuleLaunchKernel",
        function,
        1,
        1,
        1,
        64,
        1,
        1,
        sharedMemBytes=0,
        stream=None,
        kernelParams=None,
        extra=extra,
    )
    same(page, x + 1)
    assert device.observed()["findings"] == []
    device.call("hipHostUnregister", page)
    fails(713, lambda: device.call("hipHostUnregister", page))
    device.call(
        "hipModuleLaunchKernel",
        function,
        1,
        1,
        1,
        64,
        1,
        1,
        sharedMemBytes=0,
        stream=None,
        kernelParams=None,
        extra=extra,
    )
    assert [found["kind"] for found in device.observed()["findings"]] == ["out-of-bounds"]


@case
def rows_and_planes(device: Device) -> None:
    into, out, _ = kinds(device)
    data = np.arange(7 * 20, dtype=np.uint8).reshape(7, 20)
    place, pitch = device.call("hipMallocPitch", 20, 7)
    assert pitch >= 20
    device.call("hipMemset", place, 0, pitch * 7)
    device.call("hipMemcpy2D", place, pitch, data, 20, 12, 7, into)
    back = np.full((7, 16), 9, np.uint8)
    device.call("hipMemcpy2DAsync", back, 16, place, pitch, 16, 7, out, None)
    same(back[:, :12], data[:, :12])
    assert (back[:, 12:] == 0).all()
    device.call("hipMemset2D", place, pitch, 5, 3, 2)
    device.call("hipMemcpy2D", back, 16, place, pitch, 16, 7, out)
    assert (back[:2, :3] == 5).all()
    assert back[2, 0] == data[2, 0]
    fails(12, lambda: device.call("hipMemcpy2D", back, 16, place, pitch, 17, 7, out))
    words = np.zeros(8, np.uint32)
    device.call("hipMemsetD32", place, 0x01020304, 4)
    device.call("hipMemsetD16", int(place) + 16, 0xABCD, 4)
    device.call("hipMemsetD8", int(place) + 24, 0x5A, 8)
    device.call("hipMemcpyDtoH", words, place, 32)
    same(words, np.array([0x01020304] * 4 + [0xABCDABCD] * 2 + [0x5A5A5A5A] * 2, np.uint32))
    fails(1, lambda: device.call("hipMemset", place, 0, pitch * 7 + 1))
    hip = device.hip
    box = hip.hipMemcpy3DParms()
    cube = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    box.srcPtr.ptr, box.srcPtr.pitch, box.srcPtr.xsize, box.srcPtr.ysize = cube.ctypes.data, 4, 4, 3
    box.dstPtr.ptr, box.dstPtr.pitch, box.dstPtr.xsize, box.dstPtr.ysize = int(place), 8, 8, 4
    box.extent.width, box.extent.height, box.extent.depth = 4, 3, 2
    box.kind = into
    device.call("hipMemset", place, 0xEE, 64)
    device.call("hipMemcpy3D", box)
    flat = np.zeros((2, 4, 8), np.uint8)
    device.call("hipMemcpyDtoH", flat, place, 64)
    same(flat[:, :3, :4], cube)
    assert (flat[:, 3] == 0xEE).all()
    device.call("hipFree", place)


@case
def streams_and_events(device: Device) -> None:
    streams = [
        device.call("hipStreamCreate"),
        device.call("hipStreamCreateWithFlags", 1),
        device.call("hipStreamCreateWithPriority", 1, -5),
    ]
    assert [device.call("hipStreamGetFlags", stream) for stream in streams] == [0, 1, 1]
    assert device.call("hipStreamGetPriority", streams[2]) == -1
    first, second = device.call("hipEventCreate"), device.call("hipEventCreateWithFlags", 0)
    device.call("hipEventRecord", first, streams[0])
    device.call("hipStreamWaitEvent", streams[1], first, 0)
    fails(400, lambda: device.call("hipEventElapsedTime", first, second))
    device.call("hipEventRecord", second, streams[0])
    device.call("hipEventSynchronize", second)
    device.call("hipEventQuery", second)
    device.call("hipStreamQuery", streams[0])
    assert device.call("hipEventElapsedTime", first, second) >= 0
    for event in (first, second):
        device.call("hipEventDestroy", event)
    for stream in streams:
        device.call("hipStreamSynchronize", stream)
        device.call("hipStreamDestroy", stream)
    fails(400, lambda: device.call("hipStreamDestroy", streams[0]))
    fails(400, lambda: device.call("hipStreamSynchronize", streams[0]))


@case
def attributes_of_kernels(device: Device) -> None:
    function = device.call("hipModuleGetFunction", device.module, b"scan_block")
    ask = device.hip.hipFunction_attribute
    assert device.call("hipFuncGetAttribute", ask.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function) == 8192
    assert device.call("hipFuncGetAttribute", ask.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) == 1024
    assert 1 <= device.call("hipFuncGetAttribute", ask.HIP_FUNC_ATTRIBUTE_NUM_REGS, function) <= 128
    groups = device.call("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", function, 1024, 0)
    assert groups == 2048 // 1024
    assert device.call(
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", function, 64, device.properties().sharedMemPerBlock - 8192
    ) in (1, 2)
    sorting = device.call("hipModuleGetFunction", device.module, b"scratch_sort")
    assert device.call("hipFuncGetAttribute", ask.HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, sorting) >= 0
    fails(500, lambda: device.call("hipModuleGetFunction", device.module, b"no_such_kernel"))
    fails(500, lambda: device.call("hipModuleGetGlobal", device.module, b"no_such_variable"))


@case
def wrong_launches(device: Device) -> None:
    out = np.zeros(64, np.uint32)
    fails(9, lambda: device.launch("never_written", 0, 64, out))
    fails(9, lambda: device.launch("never_written", 1, 2048, out))
    fails(2, lambda: device.launch("transpose_f64", 1, 1, out, out, lds=200_000))
    fails(301, lambda: device.call("hipModuleLoad", b"/no/such/file"))
    fails(200, lambda: device.call("hipModuleLoadData", b"not a code object" * 8))
    function = device.call("hipModuleGetFunction", device.module, b"narrow_memory")
    hip = device.hip
    short = (ctypes.c_void_p(0), ctypes.c_void_p(0))
    assert int(hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, short)[0]) == 1


@case
def a_trap_stops_the_launch_and_nothing_else(device: Device) -> None:
    fails(719, lambda: device.launch("trap", 1, 64))
    device.library.emu_last_fault.restype = ctypes.c_char_p
    fault = device.library.emu_last_fault().decode()
    assert "s_trap" in fault
    assert "trap" in fault.rpartition(" in ")[2]
    assert device.observed()["fault"] == fault
    assert device.observed()["fault"] is None
    x = np.ones(64, np.float32)
    device.launch("beyond", 1, 64, x, U32(0))
    assert device.observed()["fault"] is None


@case
def findings(device: Device) -> None:
    x = np.zeros(64, np.float32)
    device.launch("beyond", 1, 64, x, U32(4))
    (found,) = device.observed()["findings"]
    assert (found["kind"], found["kernel"], found["count"]) == ("out-of-bounds", "beyond", 4)
    assert "at the end of allocation" in found["text"]
    same(x, np.array([0] * 4 + [1] * 60, np.float32))
    out = np.zeros(256, np.uint32)
    device.launch("races", 1, 256, out)
    assert {found["kind"] for found in device.observed()["findings"]} <= {"lds-race", "uninitialised-lds"}
    device.launch("never_written", 1, 256, out)
    assert {found["kind"] for found in device.observed()["findings"]} == {"uninitialised-lds"}
    device.library.emu_options(ctypes.c_uint64(0), 1, 0)
    device.launch("never_written", 1, 256, out)
    device.launch("beyond", 1, 64, x, U32(4))
    assert [found["kind"] for found in device.observed()["findings"]] == ["out-of-bounds"]
    device.library.emu_options(ctypes.c_uint64(0), 1, 1)


class Region(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("writable", ctypes.c_int),
    )


@case
def watched_regions(device: Device) -> None:
    into, _, _ = kinds(device)
    arena = np.zeros(1024, np.uint8)
    regions = (Region * 2)(Region(b"input", 0, 256, 0), Region(b"output", 512, 768, 1))
    watch = device.library.emu_watch
    watch(ctypes.c_void_p(arena.ctypes.data), ctypes.c_uint64(1024), regions, ctypes.c_uint64(2))
    place = device.call("hipMalloc", 1024)
    function = device.call("hipModuleGetFunction", device.module, b"beyond")

    def store(offset: int) -> list[dict[str, Any]]:
        extra = (ctypes.c_void_p(int(place) + offset), U32(0))
        device.call(
            "hipModuleLaunchKernel",
            function,
            1,
            1,
            1,
            64,
            1,
            1,
            sharedMemBytes=0,
            stream=None,
            kernelParams=None,
            extra=extra,
        )
        found: list[dict[str, Any]] = device.observed()["findings"]
        return found

    assert store(300) == []
    device.call("hipMemcpy", place, arena, 512, into)
    assert store(300) == [], "another copy than the watched one names nothing"
    device.call("hipMemcpy", place, arena, 1024, into)
    assert store(512) == []
    (found,) = store(516)
    assert found["count"] == 1
    assert "output" in found["text"]
    (found,) = store(0)
    assert found["count"] == 64
    assert "input" in found["text"]
    watch(ctypes.c_void_p(arena.ctypes.data), ctypes.c_uint64(1024), None, ctypes.c_uint64(0))
    device.call("hipFree", place)


@case
def seeds_give_the_same_results(device: Device) -> None:
    x = np.arange(1024, dtype=np.uint32)
    out = np.zeros_like(x)
    for seed in range(4):
        device.library.emu_options(ctypes.c_uint64(seed), 1 + seed % 2, 1)
        device.launch("scan_block", 1, 1024, x, out)
        same(out, np.cumsum(x, dtype=np.uint32))
    device.library.emu_options(ctypes.c_uint64(0), 1, 1)
    assert device.observed()["findings"] == []
