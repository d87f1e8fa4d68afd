"""The planted faults: mistakes that real attention kernels make, each with a name.

The kernel model and the generated CPU sources can contain each of them. They test the rules that judge a kernel: a rule
that accepts a planted fault is too weak.
"""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """One planted fault. Its value is its name in tables; the macro ``FAULT_<NAME>`` enables it in CPU sources."""

    LAST_KEY_DROPPED = "last_key_dropped"
    """The last visible key of every row is left out."""
    TILE_SKIPPED = "tile_skipped"
    """One tile of keys (the second, or the only one's second half) is left out."""
    STALE_MAX = "stale_max"
    """The accumulator is not rescaled when the running row maximum grows."""
    MASK_OFF_BY_ONE = "mask_off_by_one"
    """The right bound of the mask admits one key too many (the bottom-right key bound when unmasked)."""
    ROW_SUM_SHORT = "row_sum_short"
    """The softmax denominator misses the last tile of keys."""
    SCALE_WRONG = "scale_wrong"
    """Scores are scaled by scale * (1 + 1/16)."""
    V_ROWS_SWAPPED = "v_rows_swapped"
    """Two neighbouring rows of V (keys 0 and 1 of every tile) are exchanged."""
    NAN_ROW = "nan_row"
    """One row of the output (the last) is NaN."""
    LOW_PRECISION_ACC = "low_precision_acc"
    """The P*V accumulator is rounded to the input dtype (bf16 for fp32) after every tile."""
    GQA_HEADS_SWAPPED = "gqa_heads_swapped"
    """Query head h reads key/value head h % kv_heads instead of h // (heads / kv_heads)."""
    WINDOW_SIDE = "window_side"
    """The left and right bounds of the window are exchanged."""
    LSE_LOG2 = "lse_log2"
    """LSE is returned in base 2."""
    DROPOUT_INVERTED = "dropout_inverted"
    """Dropout is inverted: elements that should be kept are dropped, and the other way round."""
    ALIBI_SIGN = "alibi_sign"
    """The ALiBi bias has the wrong sign."""
