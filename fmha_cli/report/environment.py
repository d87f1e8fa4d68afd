"""The ``environment`` block: what ran here. Cheap: it reads what probes found and probes nothing itself."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from fmha_cli import __version__
from fmha_cli.device import Availability, DeviceFacts


def environment(backends: Mapping[str, Availability]) -> dict[str, Any]:
    """Versions, platform, and the answer of every backend that was asked, by backend name."""
    return {
        "backends": {name: backend_dict(found) for name, found in sorted(backends.items())},
        "devices": device_list(backends),
        "fmha": __version__,
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def backend_dict(found: Availability) -> dict[str, Any]:
    """One backend's state; why and help are null where all is well."""
    return {"help": found.help, "state": found.state.value, "version": found.version, "why": found.why}


def device_list(backends: Mapping[str, Availability]) -> list[dict[str, Any]]:
    """Every device that a backend found, with the backend's name; one device may stand under several."""
    return [device_dict(name, device) for name, found in sorted(backends.items()) for device in found.devices]


def device_dict(backend: str, device: DeviceFacts) -> dict[str, Any]:
    """One device as a backend sees it; unknown sizes are null."""
    return {
        "archs": list(device.archs),
        "backend": backend,
        "id": device.id,
        "llc_bytes": device.llc_bytes or None,
        "memory_bytes": device.memory_bytes or None,
        "name": device.name,
        "units": device.units,
    }
