"""``Cuda``: the driver calls that sessions need, and the devices that the driver reports.

The calls go through cuda-python's ``cuda.bindings.driver``. ``cuda.core`` would hide what the sessions measure (which
call waits, what a graph holds), and the pinned cuda-python does not contain it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fmha_cli.backends.gpu.driver import Driver, probe
from fmha_cli.domain.arch import arch_names
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.installation import import_modules

CUBIN_CUDA = (13, 0)
"""The CUDA release whose compiler makes the cubins. A driver of the same major release, or a later one, loads them."""

LIBRARY = "libcuda.so.1"
_NAME_BYTES = 256
_BINDINGS = "cuda.bindings.driver"
"""cuda-python's bindings of the driver. They can be imported even without a driver."""

NO_DEVICE = 100
STUB_LIBRARY = 34
"""CUDA_ERROR_STUB_LIBRARY: the loaded libcuda is a toolkit's stub for linking on machines without a driver."""

LOST = (214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 911)
"""ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, CONTAINED, ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED, ASSERT,
HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE, INVALID_PC, LAUNCH_FAILED,
TENSOR_MEMORY_LEAK, EXTERNAL_DEVICE. Source: according to the driver's header, after any of these errors every further
call of the process fails, and the process must be restarted."""


@dataclass(frozen=True, kw_only=True)
class CudaDevice:
    """The driver's report about a device.

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


class Cuda(Driver):
    """One process's CUDA driver. Create it with :meth:`open`. Calls that fail raise errors of the code N001."""

    prefix, memory, fatal, code = "cu", ("MemAlloc", "MemFree"), LOST, "N001"
    arguments_end = 0

    def __init__(self, bindings: Any) -> None:
        super().__init__(bindings)
        self._contexts: dict[int, Any] = {}

    @staticmethod
    def open() -> Cuda:
        """Import the bindings and call the driver once, because the import alone does not show that there is a driver.

        Raises:
            EnvironmentProblem: N002, there is no driver; N003, cuda-python is missing; N004, there is no device; N005,
                the driver is older than the kernels' CUDA; N007, the driver does not start.
        """
        cuda = Cuda(*import_modules([_BINDINGS], "cuda-python", "N003", "pip install 'fmha[cuda]'"))
        try:
            number, _, _ = cuda.ask("cuInit", 0)
        except RuntimeError as fault:  # cuda-python: the library does not load
            raise _absent(str(fault)) from fault
        if number:
            raise _report_unstarted(number, cuda.error_text(number))
        if cuda.release() < CUBIN_CUDA:
            here, needed = cuda.version(), "{}.{}".format(*CUBIN_CUDA)
            raise EnvironmentProblem(
                f"the NVIDIA driver is older than the kernels: it supports CUDA {here}, they need CUDA {needed}",
                code="N005",
                where=LIBRARY,
                help="install a driver of release 580 or later; nvidia-smi shows the installed one",
            )
        return cuda

    def error_text(self, number: int) -> str:
        try:
            text = self.driver.cuGetErrorString(self.driver.CUresult(number))[1]
        except (ValueError, RuntimeError):
            text = None
        return f"CUDA error {number}" if text is None else f"{text.decode('ascii', 'replace')} ({number})"

    def release(self) -> tuple[int, int]:
        """The CUDA release that the driver supports, such as (13, 0)."""
        number = int(self.call("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    def version(self) -> str:
        return "{}.{}".format(*self.release())

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

        The context is kept until the process ends, so the process's next session can reuse it.
        """
        if index not in self._contexts:
            self._contexts[index] = self.call("cuDevicePrimaryCtxRetain", self.call("cuDeviceGet", index))
        self.call("cuCtxSetCurrent", self._contexts[index])

    def copy_in(self, device: int, host: int, size: int) -> None:
        self.call("cuMemcpyHtoD", device, host, size)

    def copy_out(self, host: int, device: int, size: int) -> None:
        self.call("cuMemcpyDtoH", host, device, size)

    def copy_within(self, to: int, source: int, size: int, stream: Any) -> None:
        self.call("cuMemcpyDtoDAsync", to, source, size, stream)

    def fill(self, address: int, value: int, size: int, stream: Any) -> None:
        self.call("cuMemsetD8Async", address, value, size, stream)

    def stream(self) -> Any:
        """A new stream. Its work waits for copies from pageable memory, whose calls may return before they are done."""
        return self.call("cuStreamCreate", int(self.driver.CUstream_flags.CU_STREAM_DEFAULT))

    def event(self) -> Any:
        return self.call("cuEventCreate", int(self.driver.CUevent_flags.CU_EVENT_DEFAULT))

    def mark(self, event: Any, stream: Any) -> None:
        """Record the event in a stream that is being captured. Every replay of the graph records it again."""
        self.call(
            "cuEventRecordWithFlags", event, stream, int(self.driver.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL)
        )


def _absent(why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"the NVIDIA driver ({LIBRARY}) does not load",
        code="N002",
        where=LIBRARY,
        why=why,
        help="install the NVIDIA driver, 580 or later; a container needs it from its host (--gpus all)",
    )


def _report_unstarted(number: int, text: str) -> EnvironmentProblem:
    if number == STUB_LIBRARY:
        return _absent("the one found is a toolkit's stub for linking; remove its folder from LD_LIBRARY_PATH")
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


_STATES = {"N002": State.MISSING, "N003": State.MISSING, "N004": State.NO_DEVICE}
_ALONE = ((8, 7), (10, 1), (11, 0))
"""Compute capabilities of Tegra devices, on which cubins of other architectures are not guaranteed to run. Source: CUDA
C++ Programming Guide, "Binary Compatibility"."""


def probe_cuda() -> Availability:
    """The state of the driver and its devices. This loads the driver, so call it in a worker."""
    return probe(
        Cuda.open, lambda d: facts_of(d, arch_names()), _STATES, runtime="the NVIDIA driver", tool="nvidia-smi"
    )


def facts_of(device: CudaDevice, known: Collection[str]) -> DeviceFacts:
    """The facts about a device that selection needs."""
    return DeviceFacts(
        id=f"cuda:{device.index}",
        archs=archs_of(device.capability, known),
        name=device.name,
        units=device.units,
        memory_bytes=device.memory_bytes,
        llc_bytes=device.l2_bytes,
    )


def archs_of(capability: tuple[int, int], known: Collection[str]) -> tuple[str, ...]:
    """Architectures whose cubins a device runs, best first.

    The order is the device's own architecture with the suffix ``a``, its own without suffix, then those with lower
    minor numbers. A cubin runs on devices with the same major number and an equal or higher minor number; a cubin with
    a suffix runs on its own architecture only. ``sm_80`` cubins therefore do not run on an H200.

    Args:
        capability: the device's compute capability.
        known: architectures that have facts. The device's own is included in any case.
    """
    major, minor = capability
    own = f"sm_{major}{minor}"
    lower = () if capability in _ALONE else tuple(f"sm_{major}{n}" for n in range(minor - 1, -1, -1))
    return (*(n for n in (f"{own}a",) if n in known), own, *(n for n in lower if n in known))
