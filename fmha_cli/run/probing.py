"""Probing: which backends can run on this machine. A backend that must open a device to answer is probed in a worker."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from fmha_cli.discovery.emulated_devices import emulated_availability
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import Availability, is_emulated
from fmha_cli.domain.protocols import Backend

if TYPE_CHECKING:
    from fmha_cli.run.supervisor import Supervisor


def probe_backends(
    registry: Registry, backends: Iterable[Backend], supervisor: Supervisor | None = None, device: str | None = None
) -> dict[str, Availability]:
    """The availability of every backend, by name.

    Args:
        supervisor: the one whose worker probes; None starts a worker where a backend needs one.
        device: the device that the user named. An emulated one is not probed, so no runtime is loaded.

    Raises:
        EnvironmentProblem: Z001, Z002, no such emulated device.
    """
    if device is not None and is_emulated(device):
        return emulated_availability(registry, backends, device)
    found: dict[str, Availability] = {}
    with ExitStack() as stack:
        for backend in backends:
            if backend.probes_in_parent:
                found[backend.name] = backend.probe()
                continue
            if supervisor is None:
                from fmha_cli.run.supervisor import Supervisor  # explaining needs no worker, and no numpy

                supervisor = stack.enter_context(Supervisor())
            found[backend.name] = supervisor.probe(registry.entry_point(backend.name), backend.name)
    return found
