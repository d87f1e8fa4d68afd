"""``Cuda``: the driver calls that sessions need. Each call is checked, and errors carry CUDA's own text.

The calls go through cuda-python's ``cuda.bindings.driver``. ``cuda.core`` would hide what the sessions measure (which
call waits, what a graph holds), and the pinned cuda-python does not contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fmha_cli.backends.cuda.bindings import open_bindings
from fmha_cli.backends.cuda.errors import LOST, NO_DEVICE, OUT_OF_MEMORY, STUB_LIBRARY, CudaError, cuda_error
from fmha_cli.domain.errors import EnvironmentProblem

CUBIN_CUDA = (13, 0)
"""The CUDA release whose compiler makes the cubins. A driver of the same major release, or a later one, loads them."""

LIBRARY = "libcuda.so.1"
_NS_PER_MS = 1e6
_NAME_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class CudaDevice:
    """What the driver reports about a device.

    Attributes:
        capability: compute capability, (9, 0) for an H200.
        units: streaming multiprocessors.
        shared_bytes: the most shared memory of one block, which a function must opt in to.
        shared_unit_bytes: shared memory of one multiprocessor.
    """

    index: int
    name: str
    capability: tuple[int, int]
    units: int
    memory_bytes: int
    l2_bytes: int
    shared_bytes: int
    shared_unit_bytes: int


class Cuda:
    """One process's CUDA driver. Create it with :meth:`open`.

    Once a kernel has ruined the context, the methods that free resources do nothing. The process's end frees them.
    """

    def __init__(self, bindings: Any) -> None:
        self.driver = bindings
        self._contexts: dict[int, Any] = {}
        self.lost = False
        """Whether a call has reported that the context is dead."""

    @staticmethod
    def open() -> Cuda:
        """Import the bindings and call the driver once, because the import alone does not show that there is a driver.

        Raises:
            EnvironmentProblem: N002, there is no driver; N003, cuda-python is missing; N004, there is no device; N005,
                the driver is older than the kernels' CUDA; N007, the driver does not start.
        """
        cuda = Cuda(open_bindings())
        try:
            number, _, _ = cuda._ask("cuInit", 0)
        except RuntimeError as fault:  # cuda-python: the library does not load
            raise _absent(str(fault)) from fault
        if number:
            raise _unstarted(number, cuda.error_text(number))
        if cuda.version() < CUBIN_CUDA:
            here, needed = _text(cuda.version()), _text(CUBIN_CUDA)
            raise EnvironmentProblem(
                f"the NVIDIA driver is older than the kernels: it knows CUDA {here}, they are made by CUDA {needed}",
                code="N005",
                where=LIBRARY,
                help="install a driver of release 580 or later; nvidia-smi shows the present one",
            )
        return cuda

    def call(self, name: str, *arguments: Any) -> Any:
        """The value of a call: None if it returns none, a tuple if it returns several.

        Raises:
            MemoryError: out of device memory.
            CudaLost: N001, the context is dead.
            CudaError: N001, any other error.
        """
        try:
            number, known, values = self._ask(name, *arguments)
        except RuntimeError as fault:  # cuda-python: the library lacks the function
            raise CudaError(f"{name} is not available", code="N001", where=name, why=str(fault)) from fault
        if number == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: {self.error_text(number)}")
        if number:
            self.lost = self.lost or number in LOST
            raise cuda_error(f"{name} failed: {self.error_text(number)}", number, name, known)
        return values[0] if len(values) == 1 else tuple(values) or None

    def _ask(self, name: str, *arguments: Any) -> tuple[int, str | None, list[Any]]:
        """The number and name of a call's status, and its values."""
        try:
            status, *values = getattr(self.driver, name)(*arguments)
        except KeyError as fault:  # cuda-python: a number that its own release does not know
            return int(fault.args[0]), None, []
        return int(status), str(status.name), values

    def error_text(self, number: int) -> str:
        """CUDA's text for an error number, followed by the number."""
        try:
            text = self.driver.cuGetErrorString(self.driver.CUresult(number))[1]
        except (ValueError, RuntimeError):
            text = None
        return f"CUDA error {number}" if text is None else f"{text.decode('ascii', 'replace')} ({number})"

    def version(self) -> tuple[int, int]:
        """The CUDA release that the driver supports, such as (13, 0)."""
        number = int(self.call("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    def devices(self) -> tuple[CudaDevice, ...]:
        """Every device with its attributes. No context is created."""
        return tuple(self._device(index) for index in range(int(self.call("cuDeviceGetCount"))))

    def _device(self, index: int) -> CudaDevice:
        device = self.call("cuDeviceGet", index)
        kinds = self.driver.CUdevice_attribute

        def fact(name: str) -> int:
            return int(self.call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

        name = self.call("cuDeviceGetName", _NAME_BYTES, device).partition(b"\0")[0]
        return CudaDevice(
            index=index,
            name=name.decode("utf-8", "replace").strip(),
            capability=(fact("COMPUTE_CAPABILITY_MAJOR"), fact("COMPUTE_CAPABILITY_MINOR")),
            units=fact("MULTIPROCESSOR_COUNT"),
            memory_bytes=int(self.call("cuDeviceTotalMem", device)),
            l2_bytes=fact("L2_CACHE_SIZE"),
            shared_bytes=fact("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            shared_unit_bytes=fact("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        )

    def use(self, index: int) -> None:
        """Make a device's primary context the current one.

        The context is kept until the process ends, so that the process's next session can reuse it.
        """
        if index not in self._contexts:
            self._contexts[index] = self.call("cuDevicePrimaryCtxRetain", self.call("cuDeviceGet", index))
        self.call("cuCtxSetCurrent", self._contexts[index])

    def malloc(self, size: int) -> int:
        """Address of a new allocation.

        Raises:
            MemoryError: out of device memory.
        """
        return int(self.call("cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        """Free an allocation."""
        if not self.lost:
            self.call("cuMemFree", address)

    def copy_in(self, device: int, host: int, size: int) -> None:
        """Copy from host to device. Later work in any stream made by :meth:`stream` runs after the copy."""
        self.call("cuMemcpyHtoD", device, host, size)

    def copy_out(self, host: int, device: int, size: int) -> None:
        """Copy from device to host, and wait."""
        self.call("cuMemcpyDtoH", host, device, size)

    def copy_within(self, to: int, source: int, size: int, stream: Any) -> None:
        """Copy from device to device, in the stream's order."""
        self.call("cuMemcpyDtoDAsync", to, source, size, stream)

    def fill(self, address: int, value: int, size: int, stream: Any) -> None:
        """Set every byte to ``value``, in the stream's order."""
        self.call("cuMemsetD8Async", address, value, size, stream)

    def stream(self) -> Any:
        """A new stream. Its work waits for copies from pageable memory, whose calls may return before they are done."""
        return self.call("cuStreamCreate", int(self.driver.CUstream_flags.CU_STREAM_DEFAULT))

    def event(self) -> Any:
        """A new event with timing."""
        return self.call("cuEventCreate", int(self.driver.CUevent_flags.CU_EVENT_DEFAULT))

    def record(self, event: Any, stream: Any) -> None:
        """Record the event in the stream."""
        self.call("cuEventRecord", event, stream)

    def mark(self, event: Any, stream: Any) -> None:
        """Record the event in a stream that is being captured. Every replay of the graph records it anew."""
        self.call(
            "cuEventRecordWithFlags", event, stream, int(self.driver.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL)
        )

    def synchronize(self, stream: Any) -> None:
        """Wait for the stream. If a kernel that ran in it failed, this call raises the error."""
        self.call("cuStreamSynchronize", stream)

    def elapsed_ns(self, events: Sequence[Any]) -> tuple[int, ...]:
        """Nanoseconds between neighbouring events. All of them must have happened."""
        return tuple(round(self.call("cuEventElapsedTime", a, b) * _NS_PER_MS) for a, b in pairwise(events))

    def destroy(self, events: Sequence[Any], stream: Any) -> None:
        """Destroy events and a stream."""
        if self.lost:
            return
        for event in events:
            self.call("cuEventDestroy", event)
        if stream is not None:
            self.call("cuStreamDestroy", stream)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _absent(why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"the NVIDIA driver ({LIBRARY}) does not load",
        code="N002",
        where=LIBRARY,
        why=why,
        help="install the NVIDIA driver, 580 or later; a container needs it from its host (--gpus all)",
    )


def _unstarted(number: int, text: str) -> EnvironmentProblem:
    if number == STUB_LIBRARY:
        return _absent("the one found is a toolkit's stub for linking; take its folder out of LD_LIBRARY_PATH")
    if number == NO_DEVICE:
        what, code = "the NVIDIA driver sees no device", "N004"
    else:
        what, code = f"the NVIDIA driver does not start: {text}", "N007"
    return EnvironmentProblem(
        what,
        code=code,
        where=LIBRARY,
        why=text,
        help="check nvidia-smi, CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*",
    )
