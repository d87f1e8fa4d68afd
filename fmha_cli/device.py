"""``DeviceFacts`` and ``Availability``: what a backend found, and devices that can be made without hardware."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum

EMULATED = "emu:"
"""How the ids of emulated devices begin."""


class State(StrEnum):
    """Whether a backend can run here."""

    OK = "ok"
    NO_DEVICE = "no-device"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """Facts of one device, constructible without it.

    Attributes:
        id: ``cpu``, ``cuda:0``, ``hip:1``, ``emu:gfx942``; ``none`` when only an architecture is known.
        archs: architectures whose kernels it accepts, best first (an H200: sm_90a, sm_90).
        units: cores, SMs or CUs.
        memory_bytes, llc_bytes: main memory and last-level cache; 0 = unknown.
    """

    id: str
    archs: tuple[str, ...]
    name: str = ""
    units: int = 1
    memory_bytes: int = 0
    llc_bytes: int = 0

    @property
    def emulated(self) -> bool:
        """Whether kernels are executed by an emulator; such a device has no speed."""
        return is_emulated(self.id)

    @staticmethod
    def of_arch(arch: str) -> DeviceFacts:
        """A device of which only the architecture is known (``--arch`` without hardware)."""
        return DeviceFacts(id="none", archs=(arch,))


@dataclass(frozen=True, kw_only=True)
class Availability:
    """The answer of a probe: a state, its reason when not ok, and the devices found."""

    state: State
    devices: tuple[DeviceFacts, ...] = ()
    why: str | None = None
    help: str | None = None
    version: str | None = None


def is_emulated(id: str | None) -> bool:
    """Whether an id (``emu:gfx942``) names an emulated device."""
    return id is not None and id.startswith(EMULATED)


def usable_cores() -> int:
    """Logical cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
