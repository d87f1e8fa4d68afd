"""``Hip``: the calls of the HIP runtime that sessions need, and the devices that it reports."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from fmha_cli.backends.gpu.driver import Driver, DriverError, probe
from fmha_cli.backends.hip.library import open_bindings, open_library
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import EnvironmentProblem

_ABSENT = (100, 101)
"""hipErrorNoDevice, hipErrorInvalidDevice."""

LOST = (214, 700, 702, 709, 710, 719)
"""hipErrorECCNotCorrectable, IllegalAddress, LaunchTimeOut, ContextIsDestroyed, Assert, LaunchFailure: after one of
these, the process can no longer use the device."""


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


class Hip(Driver):
    """One process's HIP runtime. Create it with :meth:`open`. Calls that fail raise errors of the code H001."""

    prefix, memory, fatal, code = "hip", ("Malloc", "Free"), LOST, "H001"
    arguments_end = 3

    def __init__(self, bindings: Any, library: ctypes.CDLL) -> None:
        super().__init__(bindings)
        self.library = library
        """The loaded libamdhip64, kept for kernel libraries, which find its symbols."""

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
            hip.call("hipInit", 0)
        except DriverError as fault:
            raise EnvironmentProblem(
                fault.what,
                code="H004",
                where=name,
                why="the runtime sees no device" if fault.number in _ABSENT else fault.why,
                help="check rocminfo, the amdgpu driver and the permissions of /dev/kfd and /dev/dri",
            ) from fault
        return hip

    def error_text(self, number: int) -> str:
        try:
            status = self.driver.hipError_t(number)
        except ValueError:
            return f"HIP error {number}"
        text = self.driver.hipGetErrorString(status)[1]
        return f"{status.name if text is None else text} ({number})"

    def version(self) -> str:
        """Version of the runtime: ``7.1.25424``."""
        number = int(self.call("hipRuntimeGetVersion"))
        return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"

    def devices(self) -> tuple[HipDevice, ...]:
        """Every device, by asking for its properties."""
        return tuple(self._device(index) for index in range(int(self.call("hipGetDeviceCount"))))

    def _device(self, index: int) -> HipDevice:
        if "prop" in signature(self.driver.hipGetDeviceProperties).parameters:
            found = self.driver.hipDeviceProp_t()
            self.call("hipGetDeviceProperties", found, index)
        else:  # from hip-python 10
            found = self.call("hipGetDeviceProperties", index)
        target, name = _text(found.gcnArchName), _text(found.name)
        return HipDevice(
            index=index,
            arch=target.partition(":")[0],
            target=target,
            name=name,
            units=int(found.multiProcessorCount),
            memory_bytes=int(found.totalGlobalMem),
            l2_bytes=int(found.l2CacheSize),
            wave=int(found.warpSize),
        )

    def use(self, index: int) -> None:
        self.call("hipSetDevice", index)

    def copy_in(self, device: int, host: int, size: int) -> None:
        self.call("hipMemcpy", device, host, size, self.driver.hipMemcpyKind.hipMemcpyHostToDevice)

    def copy_out(self, host: int, device: int, size: int) -> None:
        self.call("hipMemcpy", host, device, size, self.driver.hipMemcpyKind.hipMemcpyDeviceToHost)

    def copy_within(self, to: int, source: int, size: int, stream: Any) -> None:
        self.call("hipMemcpyAsync", to, source, size, self.driver.hipMemcpyKind.hipMemcpyDeviceToDevice, stream)

    def fill(self, address: int, value: int, size: int, stream: Any) -> None:
        self.call("hipMemsetAsync", address, value, size, stream)

    def stream(self) -> Any:
        """A new stream; ``int()`` of it is the handle that C code takes."""
        return self.call("hipStreamCreate")

    def event(self) -> Any:
        return self.call("hipEventCreate")


def _text(value: bytes | str) -> str:
    """The text of an array of characters: bytes to hip-python 7, a string from 10."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


LAST_LEVEL = "llc_bytes"
"""The architecture fact that holds the size of the last cache before memory (Infinity Cache)."""

_STATES = {"H002": State.MISSING, "H003": State.MISSING, "H004": State.NO_DEVICE}


def probe_hip(library: Path | None = None) -> Availability:
    """The state of the HIP runtime and its devices. It loads the driver, so call it in a worker.

    Args:
        library: a specific libamdhip64 instead of the system's.
    """
    return probe(lambda: Hip.open(library), facts_of, _STATES, runtime="the HIP runtime", tool="rocminfo")


def facts_of(device: HipDevice) -> DeviceFacts:
    """The device facts that kernel selection reads."""
    return DeviceFacts(
        id=f"hip:{device.index}",
        archs=(device.arch,),
        name=device.name,
        units=device.units,
        memory_bytes=device.memory_bytes,
        llc_bytes=last_level_cache(device.arch, device.l2_bytes),
    )


def last_level_cache(arch: str, l2_bytes: int) -> int:
    """Bytes of the last cache before memory: the architecture's fact, since the runtime reports only the L2."""
    facts = load_arch(arch).facts if arch in arch_names() else {}
    stated = facts.get(LAST_LEVEL, {}).get("value", 0)
    return max(int(stated), l2_bytes)
