"""How many pieces the keys are split into: upstream's heuristic, in its own single precision.

Source: ``csrc/flash_attn/flash_api.cpp`` ``num_splits_heuristic`` and ``set_params_splitkv``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from struct import pack, unpack

MAX_SPLITS = 128
"""Most splits that ``set_params_splitkv`` admits and that a combine kernel is compiled for."""
ROWS_PER_BLOCK = 64
"""``kBlockM`` of every split-KV kernel."""
BLOCKS_PER_MULTIPROCESSOR = 2
"""``set_params_splitkv`` doubles the multiprocessors, "to hard-code the fact that we're using 128 threads per block"."""
BUSY = 0.8
"""Share of the slots that counts as a full device (a float constant upstream): no splitting from there on."""
GOOD_ENOUGH = 0.85
"""Share of the best efficiency with which the smallest count is taken (a double constant upstream)."""


@dataclass(frozen=True)
class Splits:
    """A split count and what it rests on."""

    count: int
    why: str


def keys_per_block(hdim: int) -> int:
    """``kBlockN`` of the split-KV kernels for a head dim: 256 up to 64, 128 up to 128, else 64."""
    return 256 if hdim <= 64 else 128 if hdim <= 128 else 64


def upstreams_splits(*, batch: int, heads: int, rows: int, keys: int, hdim: int, multiprocessors: int) -> Splits:
    """The count that ``set_params_splitkv`` takes when none is given.

    Args:
        heads, rows: after the exchange of head groups and query rows, if there is one.
        keys: ``max_seqlen_k``: the cache's capacity, or the longest sequence.
    """
    blocks = batch * heads * -(-rows // ROWS_PER_BLOCK)
    slots = multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    key_blocks = -(-keys // keys_per_block(hdim))
    count = heuristic(blocks, slots, key_blocks, MAX_SPLITS)
    return Splits(count, f"upstream's heuristic: {blocks} blocks of {ROWS_PER_BLOCK} rows on {slots} slots")


def heuristic(blocks: int, slots: int, key_blocks: int, most: int) -> int:
    """The smallest eligible count whose efficiency, waves / ceil(waves), is within 85 % of the best.

    A count is eligible when it shortens the longest piece: with 64 key blocks, 12 splits are 11 in truth. 1 on a
    busy device, without blocks and without keys.
    """
    if blocks < 1 or single(blocks) >= single(single(BUSY) * single(slots)):
        return 1
    counts = [n for n in range(1, min(most, slots, key_blocks) + 1) if _eligible(n, key_blocks)]
    efficiency = {n: _efficiency(blocks * n, slots) for n in counts}
    enough = GOOD_ENOUGH * max(efficiency.values(), default=0.0)
    return next((n for n in counts if efficiency[n] >= enough), 1)


def log2_max_splits(count: int) -> int | None:
    """``Log_max_splits`` of the combine kernel for a count of 2 or more; None above :data:`MAX_SPLITS`."""
    return None if count > MAX_SPLITS else max(1, (count - 1).bit_length())


def _eligible(count: int, key_blocks: int) -> bool:
    return count == 1 or -(-key_blocks // count) != -(-key_blocks // (count - 1))


def _efficiency(blocks: int, slots: int) -> float:
    waves = single(single(blocks) / single(slots))
    return single(waves / ceil(waves))


def single(value: float) -> float:
    """The nearest single-precision number, infinite beyond the largest."""
    try:
        rounded: float = unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return inf if value > 0 else -inf
    return rounded
