"""How many parts the keys are split into: upstream's heuristic, in single precision as upstream computes it.

Source: ``example/ck_tile/01_fmha/fmha_fwd_runner.hpp``, ``num_splits_heuristic`` and
``override_num_splits_if_necessary``; ``example_fmha_fwd.cpp``, ``num_splits``, whose default is 1 (baseline).
"""

from __future__ import annotations

from fmha_cli.backends.gpu.arithmetic import Splits, split_heuristic
from fmha_cli.domain.problem import Problem

MAX_SPLITS = 128
"""The most splits for which a combine kernel is compiled (``fmha_fwd_splitkv_combine_oneshot_``)."""
ROWS_PER_BLOCK = 64
"""``kM0`` of ``override_num_splits_if_necessary``."""
BLOCKS_PER_MULTIPROCESSOR = 2
KEYS_PER_TILE, KEYS_PER_SMALL_TILE, SMALL_HDIM = 128, 64, 64
"""The most keys in a tile (bn0) of a split-KV kernel: 64 for head dims up to 64."""
LOG2_MAX_SPLITS = ((8, 3), (16, 4), (32, 5), (64, 6), (128, 7))
"""``kLogMaxSplits`` of each instance of the combine kernel, by the largest count that the instance handles."""


def splits_for(problem: Problem, multiprocessors: int) -> Splits:
    """The count that the user gave, or for ``--splits auto`` that of upstream's heuristic, but never more than there are
    tiles of keys: the heuristic does not look at the keys, and a split without a tile has nothing to do.

    With dropout, upstream leaves the count at "automatic", which means no splitting.
    """
    if problem.splits:
        return Splits(problem.splits, f"--splits {problem.splits}")
    if problem.dropout:
        return Splits(1, "dropout: keys are not split")
    blocks = problem.batch * problem.heads * -(-max(problem.query_lengths(), default=0) // ROWS_PER_BLOCK)
    slots = multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    count = split_heuristic(blocks, slots, range(1, min(MAX_SPLITS, slots) + 1))
    why = f"upstream's heuristic: {blocks} blocks of {ROWS_PER_BLOCK} rows on {slots} slots"
    tiles = max(1, -(-max(problem.key_lengths(), default=0) // keys_per_tile(problem)))
    if tiles < count:
        count, why = tiles, f"{why} would take {count}, more than the {tiles} tile{'' if tiles == 1 else 's'} of keys"
    return Splits(count, why if count == 1 else f"{why}; its own program takes 1 by default (--splits 1)")


def keys_per_tile(problem: Problem) -> int:
    """The most keys that a tile of a split-KV kernel for these head dims holds."""
    return KEYS_PER_SMALL_TILE if max(problem.hdim, problem.hdim_v) <= SMALL_HDIM else KEYS_PER_TILE


def log2_max_splits(count: int) -> int | None:
    """``kLogMaxSplits`` of the combine kernel for a count; None above :data:`MAX_SPLITS`."""
    return next((log2 for most, log2 in LOG2_MAX_SPLITS if count <= most), None)
