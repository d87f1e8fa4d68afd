"""``Hip``: the calls that sessions need. Each is checked, and errors carry HIP's own text."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fmha_cli.backends.hip.library import open_bindings, open_library
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem, KernelFailure

_NS_PER_MS = 1e6
_ABSENT = (100, 101)
"""hipErrorNoDevice, hipErrorInvalidDevice."""

_OUT_OF_MEMORY = 2
"""hipErrorOutOfMemory."""


_LOST = (214, 700, 702, 709, 710, 719)
"""hipErrorECCNotCorrectable, IllegalAddress, LaunchTimeOut, ContextIsDestroyed, Assert, LaunchFailure: after one of
these, the process can no longer use the device."""


class HipError(KernelFailure):
    """A HIP call that failed.

    Attributes:
        number: the ``hipError_t``.
    """

    number = 0


class HipLost(HipError, DeviceLost):
    """A HIP call that failed because a kernel ruined the context. Freeing memory is pointless from then on."""


@dataclass(frozen=True)
class HipDevice:
    """A device as the runtime describes it.

    Attributes:
        arch: ``gfx942``, without the feature flags of ``target`` (``gfx942:sramecc+:xnack-``).
        units: compute units; on RDNA the runtime counts work-group processors, each with two compute units.
        l2_bytes: size of the L2; the runtime does not report the size of the Infinity Cache behind it.
    """

    index: int
    arch: str
    target: str
    name: str
    units: int
    memory_bytes: int
    l2_bytes: int
    wave: int


class Hip:
    """One process's HIP runtime. Create it with :meth:`open`."""

    def __init__(self, bindings: Any, library: ctypes.CDLL) -> None:
        self._hip = bindings
        self.library = library
        """The loaded libamdhip64, kept so that kernel libraries find its symbols."""

    @staticmethod
    def open(path: Path | None = None) -> Hip:
        """Load the runtime and call it once, because a successful import proves nothing.

        Args:
            path: a specific libamdhip64 instead of the system's.

        Raises:
            EnvironmentProblem: H002, H003; H004, the runtime does not start or finds no device.
        """
        library, name = open_library(path)
        hip = Hip(open_bindings(name), library)
        try:
            hip._call("hipInit", 0)
        except HipError as fault:
            raise EnvironmentProblem(
                fault.what,
                code="H004",
                where=name,
                why="the runtime sees no device" if fault.number in _ABSENT else fault.why,
                help="check rocminfo, the amdgpu driver and the permissions of /dev/kfd and /dev/dri",
            ) from fault
        return hip

    def _call(self, name: str, *arguments: Any) -> Any:
        """Make a call and return its value (None if it has none).

        Raises:
            MemoryError: out of device memory.
            HipLost: H001, the context is dead.
            HipError: H001, any other error.
        """
        try:
            status, *values = getattr(self._hip, name)(*arguments)
        except RuntimeError as fault:  # hip-python: the library lacks the symbol
            raise HipError(f"{name} is not available", code="H001", where=name, why=str(fault)) from fault
        number = int(status)
        if number == _OUT_OF_MEMORY:
            raise MemoryError(f"{name}: {self._text(status)}")
        if number:
            kind = HipLost if number in _LOST else HipError
            error = kind(f"{name} failed: {self._text(status)} ({number})", code="H001", where=name, why=status.name)
            error.number = number
            raise error
        return values[0] if len(values) == 1 else tuple(values) or None

    def _text(self, status: Any) -> str:
        text = self._hip.hipGetErrorString(status)[1]
        return str(status.name) if text is None else str(text)

    def error_text(self, number: int) -> str:
        """HIP's text for an error number."""
        try:
            return f"{self._text(self._hip.hipError_t(number))} ({number})"
        except ValueError:
            return f"HIP error {number}"

    def version(self) -> str:
        """Version of the runtime: ``7.1.25424``."""
        number = int(self._call("hipRuntimeGetVersion"))
        return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"

    def devices(self) -> tuple[HipDevice, ...]:
        """Every device, by asking for its properties."""
        return tuple(self._device(index) for index in range(int(self._call("hipGetDeviceCount"))))

    def _device(self, index: int) -> HipDevice:
        found = self._hip.hipDeviceProp_t()
        self._call("hipGetDeviceProperties", found, index)
        target = found.gcnArchName.decode("ascii", "replace")
        return HipDevice(
            index=index,
            arch=target.partition(":")[0],
            target=target,
            name=found.name.decode("utf-8", "replace"),
            units=int(found.multiProcessorCount),
            memory_bytes=int(found.totalGlobalMem),
            l2_bytes=int(found.l2CacheSize),
            wave=int(found.warpSize),
        )

    def use(self, index: int) -> None:
        """Make a device the current one."""
        self._call("hipSetDevice", index)

    def malloc(self, size: int) -> int:
        """Address of a new allocation.

        Raises:
            MemoryError: out of device memory.
        """
        return int(self._call("hipMalloc", max(size, 1)))

    def free(self, address: int) -> None:
        """Free an allocation."""
        self._call("hipFree", address)

    def copy_in(self, device: int, host: int, size: int) -> None:
        """Copy host -> device, and wait."""
        self._call("hipMemcpy", device, host, size, self._hip.hipMemcpyKind.hipMemcpyHostToDevice)

    def copy_out(self, host: int, device: int, size: int) -> None:
        """Copy device -> host, and wait."""
        self._call("hipMemcpy", host, device, size, self._hip.hipMemcpyKind.hipMemcpyDeviceToHost)

    def copy_within(self, to: int, source: int, size: int, stream: Any) -> None:
        """Copy device -> device, in stream order."""
        self._call("hipMemcpyAsync", to, source, size, self._hip.hipMemcpyKind.hipMemcpyDeviceToDevice, stream)

    def fill(self, address: int, value: int, size: int, stream: Any) -> None:
        """Set every byte to ``value``, in stream order."""
        self._call("hipMemsetAsync", address, value, size, stream)

    def stream(self) -> Any:
        """A new stream; ``int()`` of it is the handle that C code takes."""
        return self._call("hipStreamCreate")

    def event(self) -> Any:
        """A new event with timing."""
        return self._call("hipEventCreate")

    def record(self, event: Any, stream: Any) -> None:
        """Record the event at the current point of the stream."""
        self._call("hipEventRecord", event, stream)

    def synchronize(self, stream: Any) -> None:
        """Wait for the stream. Errors of kernels that ran in it are raised here."""
        self._call("hipStreamSynchronize", stream)

    def elapsed_ns(self, events: Sequence[Any]) -> tuple[int, ...]:
        """Nanoseconds between neighbouring events, all of which must have completed."""
        return tuple(round(self._call("hipEventElapsedTime", a, b) * _NS_PER_MS) for a, b in pairwise(events))

    def destroy(self, events: Sequence[Any], stream: Any) -> None:
        """Destroy events and a stream."""
        for event in events:
            self._call("hipEventDestroy", event)
        if stream is not None:
            self._call("hipStreamDestroy", stream)
