"""Masks as upstream takes them: ``causal``, and two bounds from the bottom-right corner, where -1 means unlimited.

Source:

- ``csrc/flash_attn/flash_api.cpp``: every API clips the bounds, ``set_params_fprop`` fills open ones.
- ``csrc/flash_attn/src/mask.h``: row i sees keys i + seqlen_k - seqlen_q - left to i + seqlen_k - seqlen_q + right.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.backends.cuda.mask_bounds import UNLIMITED, Bounds
from fmha_cli.domain.signature import MaskKey


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
