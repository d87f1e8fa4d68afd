"""``fmha devices``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import BACKEND, ROWS


def devices(call: Call) -> None:
    """Every device of every backend, the emulated ones last, and why the others have none."""
    from fmha_cli.cli.asked import found_by
    from fmha_cli.discovery.emulated_devices import emulated_devices, runs_on
    from fmha_cli.discovery.select import Wanted, wanted_backends
    from fmha_cli.report.documents.installation import devices_document

    wanted = Wanted(backend=call.settings.text("backend") or "auto")
    backends = wanted_backends(call.registry, wanted)
    emulated = [
        (backend.name, device)
        for emulator, device in emulated_devices(call.registry)
        for backend in backends
        if runs_on(backend, emulator) and set(device.archs) & set(backend.archs())
    ]
    call.output.document(devices_document(found_by(call, wanted), emulated))


COMMAND = Command(
    devices,
    options=(BACKEND, *ROWS),
    detail="An emulated device (emu:ARCH) runs kernels on the CPU, instruction by instruction; it is used only where "
    "--device names it, and has no speed.",
)
