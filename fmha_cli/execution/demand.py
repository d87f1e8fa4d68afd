"""The host memory that checking a row needs besides its arena: a lower bound, known before anything is allocated."""

from __future__ import annotations

from math import prod

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.execution.layout import ArenaLayout

_F64 = 8


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
