"""Asking backends whether they are here; those that open a device answer from a worker process."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from fmha_cli.device import Availability, is_emulated
from fmha_cli.emulated import emulated_availability
from fmha_cli.protocols import Backend
from fmha_cli.registry import Registry

if TYPE_CHECKING:
    from fmha_cli.execution.supervisor import Supervisor


def probe_backends(
    registry: Registry, backends: Iterable[Backend], supervisor: Supervisor | None = None, device: str | None = None
) -> dict[str, Availability]:
    """The availability of every backend, by name.

    Args:
        supervisor: whose worker is asked; without one, a worker is started where a backend needs it.
        device: the one that was named. For an emulated one nothing is probed: no runtime is loaded beside it.

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
                from fmha_cli.execution.supervisor import Supervisor  # explaining needs no worker, and no numpy

                supervisor = stack.enter_context(Supervisor())
            found[backend.name] = supervisor.probe(registry.entry_point(backend.name), backend.name)
    return found
