"""``fmha devices``."""

from __future__ import annotations

from functools import partial

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.request import found_by
from fmha_cli.discovery.emulated_devices import emulated_devices, runs_on
from fmha_cli.discovery.wanted import Wanted, wanted_backends
from fmha_cli.report.documents.installation import (
    devices_document,
    devices_view,
)
from fmha_cli.report.form import Format


def devices(call: CliCall) -> None:
    """Every device of every backend, the emulated ones last, and why the others have none."""
    wanted = Wanted(backend=call.settings.text("backend") or "auto")
    backends = wanted_backends(call.registry, wanted)
    emulated = [
        (backend.name, device)
        for emulator, device in emulated_devices(call.registry)
        for backend in backends
        if runs_on(backend, emulator) and set(device.archs) & set(backend.archs())
    ]
    document = devices_document(found_by(call, wanted), emulated)
    if call.output.form is Format.TABLE and call.settings.on("verbose"):
        call.output.table(document, partial(devices_view, whole=True))
    else:
        call.output.document(document)
