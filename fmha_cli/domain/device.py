"""``DeviceFacts`` and ``Availability``: the devices that a backend found, and the part of the machine that this process
may use.

Both nouns can be made without hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fmha_cli.system.machine import usable_cores as usable_cores

EMULATED = "emu:"
"""How the ids of emulated devices begin."""

CPU = "cpu"
"""The id of the host's own processor."""

NO_DEVICE = "none"
"""The id of a device of which only the architecture is known."""


class State(StrEnum):
    """Whether a backend can run on this machine."""

    OK = "ok"
    NO_DEVICE = "no-device"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """Facts of one device; it can be made without the device.

    Attributes:
        id: ``cpu``, ``cuda:0``, ``hip:1``, ``emu:gfx942``; ``none`` if only the architecture is known.
        archs: architectures whose kernels the device accepts, best first (an H200: sm_90a, sm_90).
        units: number of cores, SMs or CUs.
        memory_bytes: size of the main memory; 0 = unknown.
        llc_bytes: size of the last-level cache; 0 = unknown.
        settings: names and values of run-time settings with which kernels shall run (``Tunable``); a name that is missing
            has the kernel's own value.
    """

    id: str
    archs: tuple[str, ...]
    name: str = ""
    units: int = 1
    memory_bytes: int = 0
    llc_bytes: int = 0
    settings: tuple[tuple[str, int], ...] = ()

    @property
    def emulated(self) -> bool:
        """Whether an emulator executes the kernels. Times on such a device mean nothing."""
        return is_emulated(self.id)

    @property
    def accelerator(self) -> bool:
        """Whether this is real hardware other than the host's own processor. Such devices are numbered (``hip:1``)."""
        return ":" in self.id and not self.emulated

    @staticmethod
    def of_arch(arch: str) -> DeviceFacts:
        """A device of which only the architecture is known (``--arch`` without hardware)."""
        return DeviceFacts(id=NO_DEVICE, archs=(arch,))


@dataclass(frozen=True, kw_only=True)
class Availability:
    """The answer of a probe: a state, the reason if the state is not ok, and the devices found."""

    state: State
    devices: tuple[DeviceFacts, ...] = ()
    why: str | None = None
    help: str | None = None
    version: str | None = None


def is_emulated(id: str | None) -> bool:
    """Whether an id (``emu:gfx942``) names an emulated device."""
    return id is not None and id.startswith(EMULATED)


_SHARED_HUGE = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")


def huge_pages(policy: Path = _SHARED_HUGE) -> str:
    """Whether the system gives shared memory pages of 2 MiB, in words. Tensors of a row lie in such memory, and ask for them."""
    chosen = _text(policy).partition("[")[2].partition("]")[0]
    if not chosen:
        return "the system has no policy for them"
    gives = {"always": "given", "within_size": "given", "advise": "given, because the arena asks", "force": "given"}
    return f"{gives.get(chosen, 'refused by the system')} ({policy} is {chosen})"


_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def available_bytes(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Bytes that can be used without swapping: the smaller limit of the machine and this process's control group.

    Page cache that the system would give back counts as available. None if neither is known.
    """
    left = [n for n in (_machine(proc), _group(proc, cgroups)) if n is not None]
    return max(0, min(left)) if left else None


def _machine(proc: Path) -> int | None:
    found = _table(proc / "meminfo").get("MemAvailable:")
    return None if found is None else found * 1024


def _group(proc: Path, cgroups: Path) -> int | None:
    """Limit minus use of the control group (version 2, else 1); in a container its own group is the root."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            names, base = ("memory.max", "memory.current", "inactive_file"), cgroups
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            base = cgroups / "memory"
        else:
            continue
        for folder in (base / path.lstrip("/"), base):
            limit, used = (_text(folder / name).strip() for name in names[:2])
            if limit.isdigit() and used.isdigit():
                return int(limit) - int(used) + _table(folder / "memory.stat").get(names[2], 0)
    return None


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) >= 2 and row[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""
