"""``Cuda``: the driver's calls that sessions need, each checked; what fails says so in CUDA's own words.

cuda-python's ``cuda.bindings.driver`` carries them. ``cuda.core`` would hide what is measured here (which call waits,
what a graph holds), and the pinned cuda-python does not bring it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fmha_cli.backends.cuda.bindings import open_bindings
from fmha_cli.backends.cuda.errors import LOST, NO_DEVICE, OUT_OF_MEMORY, STUB_LIBRARY, CudaError, cuda_error
from fmha_cli.errors import EnvironmentProblem

CUBIN_CUDA = (13, 0)
"""The CUDA release whose compiler makes the cubins; a driver of the same major release, or a later one, loads them."""

LIBRARY = "libcuda.so.1"
_NS_PER_MS = 1e6
_NAME_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class CudaDevice:
    """What the driver says of a device.

    Attributes:
        capability: compute capability, (9, 0) for an H200.
        units: streaming multiprocessors.
        shared_bytes: shared memory of one block, by the function's consent; shared_unit_bytes: of one multiprocessor.
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

    Once a kernel has ruined the context, giving things back does nothing: the process's end does it.
    """

    def __init__(self, bindings: Any) -> None:
        self.driver = bindings
        self._contexts: dict[int, Any] = {}
        self.lost = False
        """Whether a call has said that the context is dead."""

    @staticmethod
    def open() -> Cuda:
        """Import the bindings and call the driver once: an import proves nothing.

        Raises:
            EnvironmentProblem: N003, no cuda-python; N002, no driver; N004, no device; N005, a driver older than the
                kernels' CUDA; N007, the driver does not start.
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
        """The value of a call (None without one, a tuple of several).

        Raises:
            MemoryError: out of device memory.
            CudaLost: N001, the context is dead. CudaError: N001, any other error.
        """
        try:
            number, known, values = self._ask(name, *arguments)
        except RuntimeError as fault:  # cuda-python: the library lacks the function
            raise CudaError(f"{name} is not to be had", code="N001", where=name, why=str(fault)) from fault
        if number == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: {self.error_text(number)}")
        if number:
            self.lost = self.lost or number in LOST
            raise cuda_error(f"{name} failed: {self.error_text(number)}", number, name, known)
        return values[0] if len(values) == 1 else tuple(values) or None

    def _ask(self, name: str, *arguments: Any) -> tuple[int, str | None, list[Any]]:
        """Number and name of the status, and the values."""
        try:
            status, *values = getattr(self.driver, name)(*arguments)
        except KeyError as fault:  # cuda-python: a number that its own release does not know
            return int(fault.args[0]), None, []
        return int(status), str(status.name), values

    def error_text(self, number: int) -> str:
        """CUDA's words for an error number, with the number."""
        try:
            text = self.driver.cuGetErrorString(self.driver.CUresult(number))[1]
        except (ValueError, RuntimeError):
            text = None
        return f"CUDA error {number}" if text is None else f"{text.decode('ascii', 'replace')} ({number})"

    def version(self) -> tuple[int, int]:
        """The CUDA release that the driver knows: (13, 0)."""
        number = int(self.call("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    def devices(self) -> tuple[CudaDevice, ...]:
        """Every device, by asking for its attributes; no context is made."""
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

        It is kept until the process ends: the next session of the process finds it ready.
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
        """Give an allocation back."""
        if not self.lost:
            self.call("cuMemFree", address)

    def copy_in(self, device: int, host: int, size: int) -> None:
        """Host -> device; later work of any stream of :meth:`stream` comes after it."""
        self.call("cuMemcpyHtoD", device, host, size)

    def copy_out(self, host: int, device: int, size: int) -> None:
        """Device -> host, and wait."""
        self.call("cuMemcpyDtoH", host, device, size)

    def copy_within(self, to: int, source: int, size: int, stream: Any) -> None:
        """Device -> device, in the stream's order."""
        self.call("cuMemcpyDtoDAsync", to, source, size, stream)

    def fill(self, address: int, value: int, size: int, stream: Any) -> None:
        """Every byte to ``value``, in the stream's order."""
        self.call("cuMemsetD8Async", address, value, size, stream)

    def stream(self) -> Any:
        """A new stream. It waits for copies from pageable memory, which may return before they are done."""
        return self.call("cuStreamCreate", int(self.driver.CUstream_flags.CU_STREAM_DEFAULT))

    def event(self) -> Any:
        """A new event with timing."""
        return self.call("cuEventCreate", int(self.driver.CUevent_flags.CU_EVENT_DEFAULT))

    def record(self, event: Any, stream: Any) -> None:
        """Mark the place in the stream."""
        self.call("cuEventRecord", event, stream)

    def mark(self, event: Any, stream: Any) -> None:
        """Mark the place in a stream that is captured: every replay of the graph records the event anew."""
        self.call(
            "cuEventRecordWithFlags", event, stream, int(self.driver.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL)
        )

    def synchronize(self, stream: Any) -> None:
        """Wait for the stream; an error of a kernel that ran in it is raised here."""
        self.call("cuStreamSynchronize", stream)

    def elapsed_ns(self, events: Sequence[Any]) -> tuple[int, ...]:
        """Nanoseconds between neighbouring events, all of them over."""
        return tuple(round(self.call("cuEventElapsedTime", a, b) * _NS_PER_MS) for a, b in pairwise(events))

    def destroy(self, events: Sequence[Any], stream: Any) -> None:
        """Give events and a stream back."""
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
