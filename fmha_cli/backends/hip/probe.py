"""Which AMD devices this machine has, according to the runtime."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.backends.gpu.driver import probe
from fmha_cli.backends.hip.runtime import Hip, HipDevice
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.device import Availability, DeviceFacts, State

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
