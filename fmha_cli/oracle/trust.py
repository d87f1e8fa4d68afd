"""When a pass would mean little: the data let wrong kernels give the right answer.

A problem that leaves nothing to see (no visible pair at all) has zeros as its only right answer; passing it is
trusted. So is a problem whose rows see at most one key: its softmax is one-hot for every kernel.
"""

from __future__ import annotations

from fmha_cli.oracle.reference import Reference
from fmha_cli.problem import Problem

ONE_HOT = 1 - 2.0**-11
"""Above this largest probability no 16-bit output shows the other keys."""

_FEW = 64
"""Outputs with fewer elements may be all zero, or V flat, by chance in the integer fills."""


def distrust_of(problem: Problem, reference: Reference, fill: str) -> str | None:
    """Why a pass would mean little, None if it means something.

    The fill ``large`` is nearly one-hot on purpose (it looks for overflow) and is exempt from that reason.
    """
    seen = reference.visible > 0
    if not seen.any():
        return None
    if reference.o.size >= _FEW:
        if not reference.o[seen].any():
            return "the right answer is zero in every element: a kernel that does nothing passes"
        if reference.flat_v:
            return "all rows of V are equal: any softmax gives the same output"
    choice = reference.visible > 1
    if fill != "large" and choice.any() and (reference.peak[choice] > ONE_HOT).all():
        return "the softmax is one-hot in every row: the weights of the other keys are not tested"
    return None
