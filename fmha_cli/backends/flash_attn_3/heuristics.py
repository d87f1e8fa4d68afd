"""The two heuristics of ``hopper/heuristics.h``, in the single precision of upstream's host code."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from fmha_cli.backends.gpu.arithmetic import BUSY, GOOD_ENOUGH, single
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.codegen.flash_attn_3.facts import Tile

L2_BYTES = 50 << 20
"""The size of the L2 cache that upstream assumes."""
FEW_TILES = 4
"""Tiles of keys up to which keys are never split."""
INT_BITS = 32


@dataclass(frozen=True)
class Sizes:
    """What the heuristic of splits reads of a problem.

    Attributes:
        batch: sequences; 1 where lengths differ, because the largest one decides then.
        rows: query rows, with the query heads of a key head as rows.
        keys: the longest sequence.
        head_bytes: bytes of K and V of one head of one sequence. Upstream's number is a C int.
    """

    batch: int
    rows: int
    keys: int
    kv_heads: int
    head_bytes: int
    multiprocessors: int


def should_pack_gqa(seqlen_q: int, groups: int, tile_rows: int) -> bool:
    """Whether packing the query heads of a key head fills tiles of rows better (lengths alike for all sequences)."""
    apart, together = (
        single(single(rows) / single(next_multiple(rows, tile_rows))) if rows else float("nan")
        for rows in (seqlen_q, seqlen_q * groups)
    )
    return apart < 0.9 * together


def num_splits_heuristic(sizes: Sizes, tile: Tile, keys_loaded: int, *, masked: bool, most: int) -> int:
    """The smallest count of splits that is efficient enough. Unlike FlashAttention-2, every count is eligible.

    Args:
        keys_loaded: keys that a tile of rows reads at most.
        masked: causal or a window.
    """
    row_tiles, key_tiles, units = -(-sizes.rows // tile.rows), -(-keys_loaded // tile.keys), sizes.multiprocessors
    tiles = sizes.batch * sizes.kv_heads * row_tiles
    if single(tiles) >= single(single(BUSY) * single(units)):
        head_bytes = _as_int(sizes.head_bytes)
        if head_bytes > L2_BYTES and row_tiles >= 2 * units and not masked:
            return min(-(-head_bytes // L2_BYTES), most)
        return 1
    if key_tiles <= FEW_TILES:
        return 1
    efficiency = {count: _efficiency(tiles * count, units) for count in range(1, min(most, units, key_tiles) + 1)}
    enough = GOOD_ENOUGH * max(efficiency.values(), default=0.0)
    return next((count for count, value in efficiency.items() if value >= enough), 1)


def _efficiency(tiles: int, units: int) -> float:
    waves = single(single(tiles) / single(units))
    return single(waves / ceil(waves)) if waves else float("nan")


def _as_int(value: int) -> int:
    """The value after it has been stored in a C int of 32 bits."""
    return (value + (1 << INT_BITS - 1)) % (1 << INT_BITS) - (1 << INT_BITS - 1)
