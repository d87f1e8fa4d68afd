"""The notices of a walk before anything is fetched or compiled: where its rows run, if that is unexpected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fmha_cli.discovery.emulated_devices import emulated_devices
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import CPU, EMULATED, Availability
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row


def notices(
    rows: Sequence[Row], registry: Registry, found: Mapping[str, Availability], request: Request
) -> Iterator[str]:
    """The lines for people, in order.

    Args:
        found: each wanted backend's probe.
    """
    yield from _fallback(rows, found)
    if not request.dry_run:
        yield from _no_device(rows, registry)


def _fallback(rows: Sequence[Row], found: Mapping[str, Availability]) -> Iterator[str]:
    """One line when a machine with a GPU falls back to its CPU, with the GPU's first reason."""
    gpus = [d.id for a in found.values() for d in a.devices if d.accelerator]
    fallen = [r for r in rows if r.choice is not None and r.choice.device.id == CPU and r.asked is None]
    if gpus and fallen:
        reason = fallen[0].fallback or "no kernel of its backends supports the problem"
        yield f"running on the CPU although {gpus[0]} is here: {reason}"


def _no_device(rows: Sequence[Row], registry: Registry) -> Iterator[str]:
    """One line for each architecture that no device here accepts."""
    absent = [row.choice.kernel for row in rows if row.choice is not None and not row.choice.runnable]
    emulated = {arch for _, device in emulated_devices(registry) for arch in device.archs} if absent else set()
    for arch in dict.fromkeys(kernel.arch for kernel in absent):
        other = f"; --device {EMULATED}{arch} executes them here" if arch in emulated else ""
        yield f"no device here accepts {arch}: kernels are built, and rows are NOT_RUN. `fmha build` builds only{other}"
