"""The memory that a row needs: lower bounds that are known before anything is allocated, and the Reason where there is less."""

from __future__ import annotations

from math import prod

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.quantities import size
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.run.layout import ArenaLayout

_F64 = 8

TOO_LARGE = "M003"
"""Id of the Reason for a row that does not fit into memory."""


def shortage(fault: MemoryError, what: str) -> Reason:
    """The Reason why a row was not run.

    Args:
        what: what the memory is for.
    """
    return Reason(
        TOO_LARGE, f"no memory for {what}: {fault}", "a smaller batch or length; --no-check needs no reference"
    )


def check_device(plan: Plan, device: DeviceFacts) -> None:
    """Raises MemoryError: every tensor once, with the workspaces, is more than the device has."""
    if 0 < device.memory_bytes < plan.predicted_bytes and not device.emulated:
        have, need = size(device.memory_bytes), size(plan.predicted_bytes)
        raise MemoryError(f"at least {need} are needed on {device.id}, which has {have}")


def copies(layout: ArenaLayout) -> int:
    """Bytes of the inputs that an arena is compared with, and of the outputs that are read from it."""
    return sum(slot.extent * (2 if slot.written and slot.role is not None else 1) for slot in layout.slots)


def reference_bytes(problem: Problem) -> int:
    """Bytes of the float64 reference: K and V of one head; for a backward pass all gradients and their noise too.

    Raises:
        UnsupportedError: T001, tensors without a form.
    """
    one_head = problem.seqlen_k * (problem.hdim + problem.hdim_v) * _F64
    shapes = shapes_of(problem)
    gradients = [prod(shapes[name].shape) for name in ("dq", "dk", "dv", "dbias") if name in shapes]
    return one_head + 2 * _F64 * sum(gradients)
