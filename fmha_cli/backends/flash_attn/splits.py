"""How many pieces the keys are split into: upstream's heuristic, in single precision as upstream computes it.

Source: ``csrc/flash_attn/flash_api.cpp`` ``num_splits_heuristic`` and ``set_params_splitkv``.
"""

from __future__ import annotations

from fmha_cli.backends.gpu.arithmetic import Splits, split_heuristic

MAX_SPLITS = 128
"""The most splits that ``set_params_splitkv`` admits and that combine kernels are compiled for."""
ROWS_PER_BLOCK = 64
"""``kBlockM`` of every split-KV kernel."""
BLOCKS_PER_MULTIPROCESSOR = 2
"""``set_params_splitkv`` doubles the multiprocessors, "to hard-code the fact that we're using 128 threads per block"."""


def keys_per_block(hdim: int) -> int:
    """``kBlockN`` of the split-KV kernels for a head dim: 256 up to 64, 128 up to 128, else 64."""
    return 256 if hdim <= 64 else 128 if hdim <= 128 else 64


def upstreams_splits(*, batch: int, heads: int, rows: int, keys: int, hdim: int, multiprocessors: int) -> Splits:
    """The count that ``set_params_splitkv`` chooses when the caller gives none.

    Args:
        heads: query heads, after the exchange of head groups and query rows if there is one.
        rows: query rows, after the same exchange.
        keys: ``max_seqlen_k``: the cache's capacity, or the longest sequence.
    """
    blocks = batch * heads * -(-rows // ROWS_PER_BLOCK)
    slots = multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    key_blocks = -(-keys // keys_per_block(hdim))
    count = heuristic(blocks, slots, key_blocks, MAX_SPLITS)
    return Splits(count, f"upstream's heuristic: {blocks} blocks of {ROWS_PER_BLOCK} rows on {slots} slots")


def heuristic(blocks: int, slots: int, key_blocks: int, most: int) -> int:
    """The smallest eligible count that is efficient enough (:func:`split_heuristic`).

    A count is eligible when it shortens the longest piece. With 64 key blocks, for example, 12 splits are really 11.
    """
    counts = range(1, min(most, slots, key_blocks) + 1)
    return split_heuristic(blocks, slots, (n for n in counts if _eligible(n, key_blocks)))


def log2_max_splits(count: int) -> int | None:
    """``Log_max_splits`` of the combine kernel for a count of 2 or more; None above :data:`MAX_SPLITS`."""
    return None if count > MAX_SPLITS else max(1, (count - 1).bit_length())


def _eligible(count: int, key_blocks: int) -> bool:
    return count == 1 or -(-key_blocks // count) != -(-key_blocks // (count - 1))
