"""Which emulated device ``--device emu:ARCH`` means, and how backends see it. It is used only when named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.emulation import Emulator, UsesRuntime
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import Backend
from fmha_cli.domain.suggest import NameKind, near_names

PACKAGES = {"gfx": "fmha-amdgpu-emu", "sm_": "fmha-nvptx-emu"}
"""How the architectures begin that a package emulates -> the package."""


def _package(id: str) -> str | None:
    """The package that would provide a device."""
    arch = id.partition(":")[2]
    return next((package for prefix, package in PACKAGES.items() if arch.startswith(prefix)), None)


def emulated_devices(registry: Registry) -> Iterator[tuple[Emulator, DeviceFacts]]:
    """Every device of every emulator that is installed."""
    for emulator in registry.emulators.values():
        for device in emulator.devices():
            yield emulator, device


def emulated_device(registry: Registry, id: str) -> tuple[Emulator, DeviceFacts]:
    """The device of an id, and its emulator.

    Raises:
        EnvironmentProblem: Z001, no emulator is installed; Z002, none has this device.
    """
    known: dict[str, tuple[Emulator, DeviceFacts]] = {}
    for emulator, device in emulated_devices(registry):
        known.setdefault(device.id, (emulator, device))
    if id in known:
        return known[id]
    wanted = _package(id)
    if not known:
        packages = [wanted] if wanted else list(PACKAGES.values())
        broken = [fault for fault in registry.faults if any(package.endswith(fault.plugin) for package in packages)]
        raise EnvironmentProblem(
            f"--device {id}: no emulator is installed",
            code="Z001",
            where="--device",
            why=f"plugin {broken[0].plugin}: {broken[0].what}" if broken else None,
            help=f"pip install {' or '.join(packages)}",
        )
    what = f"--device {id}: no such emulated device"
    near = near_names(id.partition(":")[2], (name.partition(":")[2] for name in known), NameKind.ARCH)
    help = f"did you mean {' or '.join(f'emu:{name}' for name in near)}?" if near else "`fmha devices` lists them"
    if wanted and wanted not in map(_package, known):
        help = f"pip install {wanted}"
    raise EnvironmentProblem(what, code="Z002", where="--device", why=f"emulated are {', '.join(known)}", help=help)


def emulated_availability(registry: Registry, backends: Iterable[Backend], id: str) -> dict[str, Availability]:
    """The devices of each backend if an emulated device was named: only that device, if its sessions run on it.

    Raises:
        EnvironmentProblem: Z001, Z002.
    """
    emulator, device = emulated_device(registry, id)
    return {backend.name: _availability(backend, emulator, device) for backend in backends}


def runs_on(backend: Backend, emulator: Emulator) -> bool:
    """Whether a backend's sessions call the runtime that the emulator stands in for."""
    return isinstance(backend, UsesRuntime) and emulator.runtime in backend.runtimes


def _availability(backend: Backend, emulator: Emulator, device: DeviceFacts) -> Availability:
    if runs_on(backend, emulator):
        return Availability(state=State.OK, devices=(device,))
    why = f"{backend.name} does not use the {emulator.runtime} runtime, which {emulator.name} stands in for"
    return Availability(state=State.NO_DEVICE, why=why)
