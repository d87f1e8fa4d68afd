"""Which NVIDIA devices the machine has, as the driver reports them."""

from __future__ import annotations

from collections.abc import Collection

from fmha_cli.backends.cuda.driver import Cuda, CudaDevice
from fmha_cli.backends.gpu.driver import probe
from fmha_cli.domain.arch import arch_names
from fmha_cli.domain.device import Availability, DeviceFacts, State

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
