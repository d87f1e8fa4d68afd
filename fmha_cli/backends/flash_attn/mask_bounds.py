"""Masks as upstream takes them: ``causal``, and two bounds from the bottom-right corner, where -1 means unlimited.

Source:

- ``csrc/flash_attn/flash_api.cpp``: every API clips the bounds, ``set_params_fprop`` fills open ones.
- ``csrc/flash_attn/src/mask.h``: row i sees keys i + seqlen_k - seqlen_q - left to i + seqlen_k - seqlen_q + right.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey

UNLIMITED = -1


@dataclass(frozen=True)
class Bounds:
    """``window_size_left`` and ``window_size_right`` as a caller passes them."""

    left: int = UNLIMITED
    right: int = UNLIMITED


@dataclass(frozen=True)
class Clipped:
    """``params.window_size_left``, ``params.window_size_right`` and ``params.is_causal``."""

    left: int
    right: int
    is_causal: bool

    @property
    def unlimited(self) -> bool:
        return self.left < 0 and self.right < 0

    @property
    def key(self) -> MaskKey:
        """The mask as the launch templates see it: ``Is_causal``, else ``Is_local``, else none."""
        if self.is_causal:
            return MaskKey.CAUSAL
        return MaskKey.NONE if self.unlimited else MaskKey.WINDOW


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


def clip_bounds(given: Bounds, seqlen_k: int, *, drop_causal: bool) -> Clipped:
    """The bounds that reach the kernels.

    Bounds past every key become unlimited first. Then (-1, 0) is causal. The open side of a window that is bounded on
    the other side becomes ``seqlen_k``.

    Args:
        drop_causal: drop the right bound, because a causal mask over one row hides nothing.
    """
    left = UNLIMITED if given.left >= seqlen_k else given.left
    right = UNLIMITED if given.right >= seqlen_k or drop_causal else given.right
    is_causal = left < 0 and right == 0
    if left < 0 <= right:
        return Clipped(seqlen_k, right, is_causal)
    return Clipped(left, seqlen_k if left >= 0 > right else right, is_causal)
