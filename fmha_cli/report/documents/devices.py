"""``fmha.devices/1``: what every backend found, and why some backends found nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.report.document import Document
from fmha_cli.report.parts import BackendRow, DeviceRow, backend_rows, device_rows
from fmha_cli.report.table import Table, table_of
from fmha_cli.report.units import counted


@dataclass(frozen=True, kw_only=True)
class Devices:
    """devices --json."""

    schema: Literal["fmha.devices/1"] = "fmha.devices/1"
    devices: tuple[DeviceRow, ...]
    backends: Mapping[str, BackendRow]


def devices_document(
    backends: Mapping[str, Availability], emulated: Iterable[tuple[str, DeviceFacts]] = ()
) -> dict[str, Any]:
    """The document of the results of probes.

    Args:
        emulated: emulated devices, each with the name of a backend that runs on it.
    """
    devices = (*device_rows(backends), *(DeviceRow.of(name, device) for name, device in emulated))
    return to_json(Devices(devices=devices, backends=backend_rows(backends)))


def devices_view(document: Mapping[str, Any]) -> Table:
    """One line for each device and backend; backends without a device below."""
    details = [
        f"  {name}: {found['state']}"
        + (f": {found['why']}" if found["why"] else "")
        + (f" (help: {found['help']})" if found["help"] else "")
        for name, found in document["backends"].items()
        if found["state"] != "ok"
    ]
    return table_of(DeviceRow, document["devices"], counted(len(document["devices"]), "device"), details)


DOCUMENT = Document(Devices, devices_view, rows="devices")
