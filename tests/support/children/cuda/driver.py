"""Cases of ``test_driver.py``, each in a separate process where the stand-in has the real driver's name.

The memory of a simulated device is host memory at real addresses.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fmha_nvptx_emu.recording import Launch, Recording

from fmha_cli.backends.cuda.driver import Cuda, probe_cuda
from fmha_cli.backends.cuda.modules import CudaKernel
from fmha_cli.backends.cuda.tensor_maps import TensorMap, encoded
from fmha_cli.backends.cuda.timing import MOST_PASSES, REPLAY_NS, Graph, StageTimer
from fmha_cli.backends.gpu.driver import DriverError, DriverLost
from fmha_cli.backends.gpu.launching import PackedArguments, Shape
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.errors import EnvironmentProblem
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.fakes.played_maps import played_map, read_map

KERNEL = "fmha_fa2"


def opened(standin: str, **settings: object) -> tuple[Recording, Cuda]:
    recording = Recording(Path(standin), **settings)
    cuda = Cuda.open()
    cuda.use(0)
    return recording, cuda


def kernel_of(cuda: Cuda, size: int = 16) -> CudaKernel:
    return CudaKernel(cuda, tiny_cubin(KERNEL, (size,)), KERNEL)


def raised(call: object, *arguments: object) -> BaseException | None:
    assert callable(call)
    try:
        call(*arguments)
    except (DriverError, MemoryError) as fault:
        return fault
    return None


def devices(standin: str) -> None:
    """The driver's answers become DeviceFacts; the probe allocates nothing."""
    recording = Recording(
        Path(standin), capability="9.0", units=132, memory=150_000_000_000, l2=60 << 20, name="NVIDIA H200", devices=2
    )
    found = probe_cuda()
    assert (found.state, found.version, found.why) == (State.OK, "13.0", None)
    assert [d.id for d in found.devices] == ["cuda:0", "cuda:1"]
    h200 = found.devices[0]
    assert h200.archs == ("sm_90a", "sm_90")
    assert (h200.name, h200.units, h200.memory_bytes, h200.llc_bytes) == ("NVIDIA H200", 132, 150_000_000_000, 60 << 20)
    (device, _) = Cuda.open().devices()
    assert (device.capability, device.shared_bytes, device.shared_unit_bytes) == ((9, 0), 232448, 233472)
    assert (recording.bytes_in_use, recording.objects) == (0, 0)


def unavailable(standin: str) -> None:
    """Every reason why a driver is unavailable has a state, a message and help."""
    recording = Recording(Path(standin))

    def probe(**settings: object) -> Availability:
        recording.play(**{"init": 0, "devices": 1, "driver": 13000, **settings})
        return probe_cuda()

    none = probe(devices=0)
    assert (none.state, none.devices) == (State.NO_DEVICE, ())
    assert "sees no device" in (none.why or "")
    assert "CUDA_VISIBLE_DEVICES" in (none.help or "")
    old = probe(driver=12080)
    assert old.state is State.BROKEN
    assert "12.8" in (old.why or "")
    assert "13.0" in (old.why or "")
    assert "580" in (old.help or "")
    mismatch = probe(init=803)
    assert mismatch.state is State.BROKEN
    assert "unsupported display driver" in (mismatch.why or "")
    stub = probe(init=34)
    assert stub.state is State.MISSING
    assert "stub" in (stub.why or "")
    odd = probe(init=12345)
    assert odd.state is State.BROKEN
    assert "12345" in (odd.why or "")
    assert probe(driver=13020).state is State.OK
    with pytest.raises(ValueError, match="colour"):
        recording.play(colour="blue")


def memory(standin: str) -> None:
    """Copies, fills and refusals in CUDA's words; a full device raises MemoryError."""
    recording, cuda = opened(standin, memory=1 << 20)
    data, back = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    stream = cuda.stream()
    a, b = cuda.malloc(100), cuda.malloc(100)
    cuda.copy_in(a, data.ctypes.data, 100)
    cuda.fill(b, 7, 100, stream)
    cuda.copy_within(b, a + 10, 20, stream)
    cuda.synchronize(stream)
    cuda.copy_out(back.ctypes.data, b, 100)
    assert list(back) == [*range(10, 30), *[7] * 80]
    assert recording.bytes_in_use == 200
    for call in (
        lambda: cuda.copy_out(back.ctypes.data, a + 50, 51),
        lambda: cuda.copy_in(back.ctypes.data, data.ctypes.data, 100),
        lambda: cuda.fill(a, 0, 101, stream),
        lambda: cuda.free(a + 1),
        lambda: cuda.copy_in(b, a, 100),
        lambda: cuda.copy_out(a, b, 100),
    ):
        fault = raised(call)
        assert isinstance(fault, DriverError)
        assert (fault.code, fault.number, fault.why) == ("N001", 1, "CUDA_ERROR_INVALID_VALUE")
        assert "invalid argument (1)" in fault.what
        assert not isinstance(fault, DriverLost)
    full = raised(cuda.malloc, 1 << 20)
    assert isinstance(full, MemoryError)
    assert "cuMemAlloc: out of memory (2)" in str(full)
    assert isinstance(raised(cuda.use, 3), DriverError)
    missing = raised(cuda.call, "cuMemAllocManaged", 5, 1)
    assert isinstance(missing, DriverError)
    assert "cuMemAllocManaged" in f"{missing.what} {missing.why}"
    cuda.free(a)
    cuda.free(b)
    cuda.destroy((), stream)
    assert (recording.bytes_in_use, recording.objects) == (0, 0)


def kernels(standin: str) -> None:
    """A cubin loads, its kernel receives the packed bytes, and events time it."""
    recording, cuda = opened(standin, kernel_ns=12_000)
    stream, events = cuda.stream(), [cuda.event() for _ in range(3)]
    kernel = kernel_of(cuda)
    data = bytes(range(16))
    arguments = PackedArguments(data, cuda.arguments_end)
    shape = Shape((7, 2, 3), (128, 1, 1), 100_000)
    unasked = raised(kernel.launch, shape, arguments, stream)
    assert isinstance(unasked, DriverError)
    assert "100000 bytes of dynamic shared memory, 49152 are allowed" in recording.complaint
    assert isinstance(raised(kernel.allow_shared, 232_449), DriverError)
    kernel.allow_shared(100_000)
    cuda.record(events[0], stream)
    kernel.launch(shape, arguments, stream)
    cuda.record(events[1], stream)
    kernel.launch(shape, arguments, stream)
    kernel.launch(shape, arguments, stream)
    cuda.record(events[2], stream)
    cuda.synchronize(stream)
    assert cuda.elapsed_ns(events) == (12_000, 24_000)
    assert recording.launches[0] == Launch(KERNEL, (7, 2, 3), (128, 1, 1), 100_000, data, False)
    assert len(recording.launches) == 3
    for wrong in (Shape((0, 1, 1), (32, 1, 1)), Shape((1, 70_000, 1), (32, 1, 1)), Shape((1, 1, 1), (2048, 1, 1))):
        assert isinstance(raised(kernel.launch, wrong, arguments, stream), DriverError)
    assert Shape((4, 0, 1), (32, 1, 1)).empty
    short = PackedArguments(data[:12], cuda.arguments_end)
    assert isinstance(raised(kernel.launch, shape, short, stream), DriverError)
    assert "12 bytes of parameters, it takes 16" in recording.complaint
    kernel.unload()
    cuda.destroy(events, stream)
    assert recording.objects == 0


def attributes(standin: str) -> None:
    """Clusters and dependent launches reach the driver, which refuses a grid of other than whole clusters."""
    recording, cuda = opened(standin, capability="9.0")
    stream, kernel, arguments = cuda.stream(), kernel_of(cuda), PackedArguments(bytes(16), cuda.arguments_end)
    for shape in (
        Shape((6, 2, 1), (128, 1, 1), cluster=2),
        Shape((6, 1, 1), (32, 1, 1), dependent=True),
        Shape((4, 1, 1), (32, 1, 1), 1024, cluster=4, dependent=True),
    ):
        kernel.launch(shape, arguments, stream)
        cuda.synchronize(stream)
        assert recording.launches[-1] == Launch(KERNEL, shape.grid, shape.block, shape.shared, bytes(16), False)
    assert isinstance(raised(kernel.launch, Shape((5, 1, 1), (32, 1, 1), cluster=2), arguments, stream), DriverError)
    assert "not a multiple of its cluster" in recording.complaint
    recording.play(capability="8.0")
    assert isinstance(raised(kernel.launch, Shape((4, 1, 1), (32, 1, 1), cluster=2), arguments, stream), DriverError)
    assert "no clusters" in recording.complaint


def images(standin: str) -> None:
    """An image that the device cannot run does not load and leaves nothing behind."""
    recording, cuda = opened(standin, capability="8.9")
    for sm, accelerated, fits in ((80, False, True), (86, False, True), (89, False, True), (90, False, False)):
        image = tiny_cubin(KERNEL, (4,), capability=sm, accelerated=accelerated)
        fault = raised(CudaKernel, cuda, image, KERNEL)
        assert (fault is None) == fits, sm
        assert fits or (isinstance(fault, DriverError) and fault.number == 209)
    recording.play(capability="10.3")
    for sm, accelerated, fits in ((100, False, True), (100, True, False), (103, True, True), (120, False, False)):
        image = tiny_cubin(KERNEL, (4,), capability=sm, accelerated=accelerated)
        assert (raised(CudaKernel, cuda, image, KERNEL) is None) == fits, (sm, accelerated)
    loaded = recording.objects
    text = raised(CudaKernel, cuda, b"// PTX, not a cubin" + bytes(64), KERNEL)
    assert isinstance(text, DriverError)
    assert text.number == 218
    other = raised(CudaKernel, cuda, tiny_cubin("other", (4,), capability=100), KERNEL)
    assert isinstance(other, DriverError)
    assert other.number == 500
    assert recording.objects == loaded


def graphs(standin: str) -> None:
    """A graph replays the captured launches without host gaps; a broken capture is released."""
    recording, cuda = opened(standin, kernel_ns=3_000, gap_ns=5_000)
    stream, events = cuda.stream(), [cuda.event() for _ in range(2)]
    kernel, arguments = kernel_of(cuda), PackedArguments(bytes(16), cuda.arguments_end)
    shape = Shape((1, 1, 1), (32, 1, 1))

    def four() -> None:
        for _ in range(4):
            kernel.launch(shape, arguments, stream)

    graph = Graph(cuda, stream, four)
    assert not recording.launches
    cuda.record(events[0], stream)
    graph.replay(stream)
    cuda.record(events[1], stream)
    cuda.synchronize(stream)
    assert [launch.replayed for launch in recording.launches] == [True] * 4
    assert cuda.elapsed_ns(events) == (17_000,)
    objects = recording.objects

    def forbidden() -> None:
        cuda.malloc(100)

    assert isinstance(raised(Graph, cuda, stream, forbidden), DriverError)
    assert recording.objects == objects
    graph.replay(stream)
    graph.destroy()
    assert recording.objects == objects - 1
    kernel.launch(shape, arguments, stream)  # the stream no longer captures
    assert not recording.launches[-1].replayed


def lost(standin: str) -> None:
    """After an illegal access every call fails with CudaLost, and freeing raises nothing."""
    recording, cuda = opened(standin)
    stream, kernel = cuda.stream(), kernel_of(cuda)
    arguments, shape = PackedArguments(bytes(16), cuda.arguments_end), Shape((1, 1, 1), (32, 1, 1))
    address = cuda.malloc(10)
    recording.play(fault="700@2")
    kernel.launch(shape, arguments, stream)
    cuda.synchronize(stream)
    kernel.launch(shape, arguments, stream)
    fault = raised(cuda.synchronize, stream)
    assert isinstance(fault, DriverLost)
    assert (fault.number, fault.why) == (700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert "an illegal memory access was encountered (700)" in fault.what
    assert isinstance(raised(cuda.malloc, 4), DriverLost)
    assert cuda.lost
    cuda.free(address)
    kernel.unload()
    cuda.destroy((), stream)
    assert recording.bytes_in_use == 10  # released when the process ends


def refused(standin: str) -> None:
    """A failed launch that leaves the context alive does not lose the device."""
    recording, cuda = opened(standin, refuse=701)
    stream, kernel = cuda.stream(), kernel_of(cuda)
    fault = raised(kernel.launch, Shape((1, 1, 1), (32, 1, 1)), PackedArguments(bytes(16), cuda.arguments_end), stream)
    assert isinstance(fault, DriverError)
    assert not isinstance(fault, DriverLost)
    assert "too many resources" in fault.what
    assert not recording.launches
    recording.play(refuse=0)
    assert cuda.malloc(4)


def models(standin: str) -> None:
    """A Python model can replace a kernel; an exception in it counts as the kernel's failure."""
    recording, cuda = opened(standin)
    stream, kernel = cuda.stream(), kernel_of(cuda)
    a = cuda.malloc(8)
    arguments = PackedArguments(a.to_bytes(8, "little") + (41).to_bytes(8, "little"), cuda.arguments_end)

    def store(launch: Launch) -> None:
        address, value = (int.from_bytes(launch.parameters[i : i + 8], "little") for i in (0, 8))
        ctypes.c_uint64.from_address(address).value = value + launch.grid[0]

    recording.model(store)
    kernel.launch(Shape((1, 1, 1), (32, 1, 1)), arguments, stream)
    out = np.zeros(1, np.uint64)
    cuda.copy_out(out.ctypes.data, a, 8)
    assert out[0] == 42
    recording.model(lambda launch: 1 // 0)
    kernel.launch(Shape((1, 1, 1), (32, 1, 1)), arguments, stream)
    assert isinstance(raised(cuda.synchronize, stream), DriverLost)
    assert isinstance(recording.faults[0], ZeroDivisionError)


def timer(standin: str) -> None:
    """Short launches are replayed and timed without host gaps; long ones run plainly; each stage keeps its share."""
    recording, cuda = opened(standin, kernel_ns=3_000, gap_ns=7_000)
    kernel, arguments = kernel_of(cuda), PackedArguments(bytes(16), cuda.arguments_end)
    shape, fills = Shape((1, 1, 1), (32, 1, 1)), []

    def once(stream: object) -> None:
        kernel.launch(shape, arguments, stream)

    def twice(stream: object) -> None:
        once(stream)
        once(stream)

    held = recording.objects
    timed = StageTimer(cuda, (once, twice), before=fills.append)
    assert timed.single() == (10_000, 20_000)
    assert (len(recording.launches), recording.graph_launches, len(fills)) == (3, 0, 1)
    assert timed.hot() == (3_000, 6_000)
    # the plain launch that measured the length, the replay, and the plain launch that leaves the outputs
    assert (recording.graph_launches, len(fills)) == (1, 4)
    recording.forget()
    assert timed.hot() == (3_000, 6_000)
    passes = -(-REPLAY_NS // 30_000)
    assert [launch.replayed for launch in recording.launches] == [True] * 3 * (1 + passes) + [False] * 3
    recording.forget()
    assert timed.single() == (10_000, 20_000)
    assert not any(launch.replayed for launch in recording.launches)
    timed.forget()
    recording.play(kernel_ns=500_000)
    recording.forget()
    assert timed.hot() == timed.hot() == (507_000, 1_014_000)
    assert (recording.graph_launches, len(recording.launches)) == (2, 6)
    timed.close()
    timed = StageTimer(cuda, (once, twice))
    recording.play(kernel_ns=0, gap_ns=0)
    recording.forget()
    assert timed.hot() == (0, 0)
    assert len(recording.launches) == 3 * (1 + 1 + MOST_PASSES)
    timed.close()
    assert recording.objects == held


def uninitialised(standin: str) -> None:
    """No call works before cuInit or without a context."""
    Recording(Path(standin))
    from cuda.bindings import driver

    early = Cuda(driver)
    assert "initialization error" in str(raised(early.devices))
    late = Cuda.open()
    assert "invalid device context" in str(raised(late.malloc, 4))


def absent(standin: str) -> None:
    """Without any libcuda the driver is reported missing, and the message names the library."""
    found = probe_cuda()
    if found.state is State.OK:  # this machine has a driver
        return
    assert found.state is State.MISSING
    assert "libcuda.so.1" in (found.why or "")
    with pytest.raises(EnvironmentProblem) as fault:
        Cuda.open()
    assert fault.value.code == "N002"


def tensor_maps(standin: str) -> None:
    """Descriptors have the driver's bytes wherever Python's memory lies; the driver's refusals are in its own words."""
    recording, cuda = opened(standin, capability="9.0")
    good = TensorMap(
        address=1 << 40,
        element="BFLOAT16",
        shape=(128, 1000, 8, 2),
        strides=(256, 256_000, 2_048_000),
        box=(64, 128, 1, 1),
        swizzle="128B",
        promotion="L2_128B",
        fill="NAN_REQUEST_ZERO_FMA",
    )
    rooms = []
    for size in range(1, 40):  # the descriptor's own memory is at another place each time
        assert encoded(cuda, good) == played_map(good)
        rooms.append(bytearray(size * 24))
    assert read_map(encoded(cuda, good)) == good
    assert "FLOAT16 128 x 1000" in replace(good, element="FLOAT16").text()
    for wrong, why in (
        (replace(good, address=(1 << 40) + 8), "multiple of 16"),
        (replace(good, strides=(256, 256_008, 2_048_000)), "stride"),
        (replace(good, shape=(128, 0, 8, 2)), "axis"),
        (replace(good, box=(64, 257, 1, 1)), "box"),
        (replace(good, box=(128, 128, 1, 1)), "more than the swizzle"),
    ):
        fault = raised(encoded, cuda, wrong)
        assert isinstance(fault, DriverError)
        assert "cuTensorMapEncodeTiled failed: invalid argument (1)" in fault.what
        assert why in recording.complaint
    recording.play(capability="8.6")
    assert isinstance(raised(encoded, cuda, good), DriverError)
    assert "no tensor maps" in recording.complaint


CASES = (
    *(
        devices,
        unavailable,
        memory,
        kernels,
        attributes,
        images,
        graphs,
        timer,
        lost,
        refused,
        models,
        tensor_maps,
        uninitialised,
    ),
    absent,
)
