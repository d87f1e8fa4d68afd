"""Masks as two bounds from the bottom-right corner, where -1 means unlimited."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem

UNLIMITED = -1


@dataclass(frozen=True)
class Bounds:
    """``window_size_left`` and ``window_size_right`` as a caller passes them."""

    left: int = UNLIMITED
    right: int = UNLIMITED


def bounds_of(problem: Problem) -> Bounds | None:
    """The problem's mask as upstream's bounds, or None where upstream cannot express it.

    A mask from the top-left corner can be converted if seqlen_k - seqlen_q is the same in every sequence that has rows,
    and neither bound falls below 0. Upstream takes a bound below 0 as unlimited.
    """
    mask = problem.mask
    shifts = {0}
    if mask.align is Align.TOP_LEFT:
        lengths = zip(problem.query_lengths(), problem.key_lengths(), strict=True)
        shifts = {k - q for q, k in lengths if q} or {0}
    if len(shifts) > 1:
        return None
    (shift,) = shifts
    left = None if mask.left is None else mask.left + shift
    right = None if mask.right is None else mask.right - shift
    if (left or 0) < 0 or (right or 0) < 0:
        return None
    return Bounds(UNLIMITED if left is None else left, UNLIMITED if right is None else right)
