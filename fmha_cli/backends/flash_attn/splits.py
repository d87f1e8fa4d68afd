"""How many pieces the keys are split into: upstream's heuristic, in single precision as upstream computes it.

Source: ``csrc/flash_attn/flash_api.cpp`` ``num_splits_heuristic`` and ``set_params_splitkv``.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.tiles import split_traits
from fmha_cli.backends.gpu.arithmetic import Splits, split_heuristic
from fmha_cli.codegen.flash_attn.traits import MAX_SPLITS

BLOCKS_PER_MULTIPROCESSOR = 2
"""``set_params_splitkv`` doubles the multiprocessors, "to hard-code the fact that we're using 128 threads per block"."""


def upstreams_splits(*, batch: int, heads: int, rows: int, keys: int, hdim: int, multiprocessors: int) -> Splits:
    """The count that ``set_params_splitkv`` chooses when the caller gives none.

    Args:
        heads: query heads, after the exchange of head groups and query rows if there is one.
        rows: query rows, after the same exchange.
        keys: ``max_seqlen_k``: the cache's capacity, or the longest sequence.
    """
    step, keys_per_block = split_traits(hdim).tile
    blocks = batch * heads * -(-rows // step)
    slots = multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    key_blocks = -(-keys // keys_per_block)
    count = heuristic(blocks, slots, key_blocks, MAX_SPLITS)
    return Splits(count, f"upstream's heuristic: {blocks} blocks of {step} rows on {slots} slots")


def heuristic(blocks: int, slots: int, key_blocks: int, most: int) -> int:
    """The smallest eligible count that is efficient enough (:func:`split_heuristic`).

    A count is eligible when it shortens the longest piece. With 64 key blocks, for example, 12 splits are really 11.
    """
    counts = range(1, min(most, slots, key_blocks) + 1)
    return split_heuristic(blocks, slots, (n for n in counts if _eligible(n, key_blocks)))


def _eligible(count: int, key_blocks: int) -> bool:
    return count == 1 or -(-key_blocks // count) != -(-key_blocks // (count - 1))
