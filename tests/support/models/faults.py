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
    V_COLUMNS = "v_columns"
    """Where V is in K, it is read from the last columns instead of the first."""


class ExtremeFault(StrEnum):
    """A planted fault of the CPU's kernels, of either direction, that only extreme inputs show; the macro ``FAULT_<NAME>`` enables it."""

    SCALED_MAXIMUM = "scaled_maximum"
    """The row's maximum is scaled, and rounded, before it is subtracted; weights of the backward kernels come from a rounded LSE."""
    BIASED_KEY = "biased_key"
    """K and V of a key that a bias of -inf hides are read."""


class CacheFault(StrEnum):
    """A planted fault of the CPU's caches, split keys and appended keys; the macro ``FAULT_<NAME>`` enables it."""

    STALE_PAGE = "stale_page"
    """Every key behind the first page is read from the page before its own."""
    PAGE_TABLE_END = "page_table_end"
    """The page after a key's own is read, also behind the end of the sequence's table."""
    SPLIT_LOST = "split_lost"
    """The combine kernel leaves out the last split."""
    ROTARY_OFF_BY_ONE = "rotary_off_by_one"
    """Rows are rotated by the position after their own, new keys and queries alike, which leaves their products alone: the
    cache and products with cached keys differ."""
    ROTARY_STYLE = "rotary_style"
    """Pairs of the other style are rotated."""
    APPEND_ROW = "append_row"
    """New keys are written one row early."""


class ByteFault(StrEnum):
    """A planted fault of the CPU's 8-bit keys and values; the macro ``FAULT_<NAME>`` enables it."""

    WRONG_ENCODING = "wrong_encoding"
    """Bytes are read in the other encoding: every fp8 number is half of what it should be."""
    SCALE_BLOCK = "scale_block"
    """Keys behind the first block or page have the scale of the one before."""


class TileFault(StrEnum):
    """A planted fault of operands in matrix tiles; the macro ``FAULT_<NAME>`` enables it."""

    TILE_PAIRS = "tile_pairs"
    """The two keys of each pair of values are exchanged."""
    TILE_TAIL = "tile_tail"
    """The rows of the last tile of weights that belong to no key keep what they held."""


class BackwardFault(StrEnum):
    """A planted fault of the CPU's backward kernels; the macro ``FAULT_<NAME>`` enables it. Names of ``Fault`` mean the same."""

    LAST_KEY_DROPPED = "last_key_dropped"
    MASK_OFF_BY_ONE = "mask_off_by_one"
    SCALE_WRONG = "scale_wrong"
    GQA_HEADS_SWAPPED = "gqa_heads_swapped"
    WINDOW_SIDE = "window_side"
    LSE_LOG2 = "lse_log2"
    """The LSE that the kernel finds where it is given none is in base 2."""
    DROPOUT_INVERTED = "dropout_inverted"
    ALIBI_SIGN = "alibi_sign"
    V_COLUMNS = "v_columns"
    DELTA_MISSING = "delta_missing"
    """The sum of dO * O is left out of dS."""
    DROPOUT_OFFSET = "dropout_offset"
    """The dropout mask is that of the next offset."""
    DQ_CHUNK_LOST = "dq_chunk_lost"
    """dQ misses the part that comes from the last chunk of keys."""
    DK_SCALE_MISSING = "dk_scale_missing"
    """dK is not multiplied by the scale."""
    DK_WRONG_HEAD = "dk_wrong_head"
    """dK is summed over the query heads of another key/value head."""
    DV_KEEP_MISSING = "dv_keep_missing"
    """dV lacks dropout's factor 1 / (1 - p)."""
    SLOPE_MISSING = "slope_missing"
    """dS lacks the derivative of the softcap."""
    DBIAS_HEAD_LOST = "dbias_head_lost"
    """A sum over the heads that share dBias misses the last one."""
    DBIAS_ROWS_LOST = "dbias_rows_lost"
    """A sum over the rows that share dBias ends with the first tile."""
    DV_IN_K_LOST = "dv_in_k_lost"
    """Where V is in K, dK misses dV's share."""
    HIDDEN_LEAKS = "hidden_leaks"
    """A row that is not finite is not computed again from visible pairs alone."""
    ZERO_WEIGHT = "zero_weight"
    """A pair whose weight is 0 has a gradient of 0 * (dP - D), which may be NaN."""
    EMPTY_ROW = "empty_row"
    """An LSE of -inf gives weights of exp(s + inf)."""
