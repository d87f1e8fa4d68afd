"""Probing: which backends can run on this machine, and what to say where rows run elsewhere than expected. A backend that must open a
device to answer is probed in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from fmha_cli.discovery.emulated_devices import emulated_availability, emulated_devices
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import CPU, EMULATED, Availability, is_emulated
from fmha_cli.domain.protocols import Backend

if TYPE_CHECKING:
    from fmha_cli.run.rows import Row
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


def notices(rows: Sequence[Row], registry: Registry, found: Mapping[str, Availability]) -> Iterator[str]:
    """The lines for people: one when a machine with a GPU falls back to its CPU, with the GPU's first reason, and one for each
    architecture that no device here accepts.

    Args:
        found: each wanted backend's probe.
    """
    gpus = [d.id for a in found.values() for d in a.devices if d.accelerator]
    fallen = [r for r in rows if r.choice is not None and r.choice.device.id == CPU and r.asked is None]
    if gpus and fallen:
        reason = fallen[0].fallback or "no kernel of its backends supports the problem"
        yield f"running on the CPU although {gpus[0]} is here: {reason}"
    absent = [row.choice.kernel for row in rows if row.choice is not None and not row.choice.runnable]
    emulated = {arch for _, device in emulated_devices(registry) for arch in device.archs} if absent else set()
    for arch in dict.fromkeys(kernel.arch for kernel in absent):
        other = f"; --device {EMULATED}{arch} executes them here" if arch in emulated else ""
        yield f"no device here accepts {arch}: kernels are built, and rows are NOT_RUN. `fmha build` builds only{other}"
