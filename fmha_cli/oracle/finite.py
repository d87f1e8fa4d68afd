"""Values that are not finite: how many the inputs hold, and where an output may and must hold them."""

from __future__ import annotations

import numpy as np

from fmha_cli.domain.features import QScale
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import pages_of
from fmha_cli.oracle.coded import UNUSED, stored_ids
from fmha_cli.oracle.tensors import F64, Array, Bools, Inputs, packed_bias

_NEAR = 2.0**-6


def nonfinite_elements(problem: Problem, inputs: Inputs) -> int:
    """Number of elements of the inputs that are NaN or infinite.

    Storage that holds no key or no bias, and scales of pages without keys, do not count, nor does a bias or sink logit of -inf, which hides its key.
    """
    count = 0
    for name, tensor in inputs.items():
        if name in ("o", "lse", "block_table"):
            continue
        bad = ~np.isfinite(tensor)
        if name in ("bias", "sink_logits"):
            bad &= ~np.isneginf(tensor.astype(np.float32))
        if not bad.any():
            continue
        if name in ("k", "v") and problem.cache_seqlens is not None:
            bad &= (stored_ids(problem, name, inputs.get("block_table")) != UNUSED)[..., None]
        if name in ("k_descale", "v_descale") and problem.paged and problem.qscale is QScale.KV_BLOCK:
            bad[~_pages_in_use(problem, inputs["block_table"], len(bad))] = False
        used = packed_bias(problem) if name == "bias" else None
        count += int((bad if used is None else bad & used).sum())
    return count


def _pages_in_use(problem: Problem, table: Array, pages: int) -> Bools:
    """Which pages of the pool hold keys."""
    used = np.zeros(pages, np.bool_)
    for b, length in enumerate(problem.key_lengths()):
        used[table[b, : pages_of(length, problem.kv_cache.page)]] = True
    return used


def wrong_kind(got: F64, want: F64, limit: float) -> Bools:
    """Where an element is of another kind than the reference's. Near overflow of the storage type both kinds are right."""
    size = np.abs(want)
    certain = ~np.isfinite(want) | (size <= limit * (1 - _NEAR)) | (size > limit * (1 + _NEAR))
    finite = np.isfinite(want) & (size <= limit)
    out: Bools = (np.isfinite(got) != finite) & certain
    return out | _other_kind(got, want)


def _other_kind(got: F64, want: F64) -> Bools:
    """Where both are not finite, but of kinds that exclude each other.

    NaN in place of an infinity is right too: a kernel may round P to 0, and 0 * inf is NaN. The reverse is not.
    """
    out: Bools = np.isinf(got) & (np.isnan(want) | (np.isinf(want) & (got != want)))
    return out
