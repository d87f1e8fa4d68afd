"""``Is_even_MN`` and ``Is_even_K`` as the launch templates pass them on: the sizes' own, less what is not compiled.

Source: the ``auto kernel =`` lines of ``csrc/flash_attn/src/flash_fwd_launch_template.h`` and
``flash_bwd_launch_template.h``.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.flash_attn.tiles import EVEN_MN_HDIM
from fmha_cli.features import Alibi
from fmha_cli.signature import MaskKey


def even_k(s: Situation) -> bool:
    """The head dim is its bucket's own, and there is no ALiBi."""
    return s.even_k and s.problem.alibi is Alibi.NONE


def even_mn(s: Situation, tile: tuple[int, ...]) -> bool:
    """Both lengths are multiples of the tile, and :func:`even_k`; without window, up to head dim 128, not appending."""
    rows, keys = tile
    plain = even_k(s) and s.mask_key is not MaskKey.WINDOW and not s.problem.append
    return plain and s.problem.hdim <= EVEN_MN_HDIM and s.even_mn(rows, keys)
