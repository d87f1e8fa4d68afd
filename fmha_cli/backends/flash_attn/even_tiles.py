"""When upstream launches its even-tile kernels: the sizes must fill the tiles, and the features must allow it.

Source: the ``auto kernel =`` lines of ``csrc/flash_attn/src/flash_fwd_launch_template.h`` and
``flash_bwd_launch_template.h``. They combine ``is_even_K`` and ``is_even_MN`` (``Situation.fills_bucket`` and
``Situation.fills_tiles``) with the features for which no even kernel is compiled.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.flash_attn.tiles import EVEN_MN_HDIM
from fmha_cli.domain.features import Alibi
from fmha_cli.domain.signature import MaskKey


def takes_even_k(s: Situation) -> bool:
    """Whether upstream passes ``Is_even_K``: the head dim fills its bucket, and there is no ALiBi."""
    return s.fills_bucket and s.problem.alibi is Alibi.NONE


def takes_even_mn(s: Situation, tile: tuple[int, ...]) -> bool:
    """Whether upstream passes ``Is_even_MN`` to a kernel with this tile.

    It does when both lengths fill the tile, ``Is_even_K`` holds, the head dim is at most 128, and there is neither a
    window nor anything to append.
    """
    rows, keys = tile
    plain = takes_even_k(s) and s.mask_key is not MaskKey.WINDOW and not s.problem.append
    return plain and s.problem.hdim <= EVEN_MN_HDIM and s.fills_tiles(rows, keys)
