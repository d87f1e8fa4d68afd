"""Small arrays that kernels read in addition to the problem's tensors. The session uploads them and owns their memory.

``seqstart_q``, ``seqstart_k`` (batch + 1), ``seqlen_k``, ``cache_seqlens``, ``cache_batch_idx`` (batch), ``kv_indptr`` (batch + 1) and
``kv_page_indices`` (``pages_read``) are int32. ``rotary_cos`` and ``rotary_sin`` (positions, rotary dim / 2) have K's
element type and hold values rounded to it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.gpu.auxiliary import given_tables, int32, rotary_tables
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import CacheKind, Mode
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets

Array = npt.NDArray[np.generic]
ReadTensor = Callable[[str], Array]


def auxiliaries_of(plan: Plan, read: ReadTensor | None) -> dict[str, Array]:
    """The arrays of a plan, by name.

    Args:
        read: returns a tensor's current content. Without it (a dry run), arrays that depend on contents are zeros.
    """
    p = plan.problem
    families = {stage.family for stage in plan.stages}
    out: dict[str, Array] = {}
    if p.mode is Mode.GROUP:
        out["seqstart_q"] = int32(offsets(p.query_lengths()))
        out["seqstart_k"] = int32(offsets(p.key_lengths()))
    if p.kv_cache.kind is not CacheKind.NONE:
        out["seqlen_k"] = int32(p.key_lengths())
    if p.cache_batch_idx is not None:
        out["cache_batch_idx"] = int32(p.cache_batch_idx)
    if Family.FWD_APPENDKV in families:
        out["cache_seqlens"] = int32(p.cache_seqlens or ())
        if p.rotary.dim:
            out |= rotary_tables(p, max(1, *p.key_lengths()))
            out |= {} if read is None else given_tables(p, out, read)
    if Family.BATCH_PREFILL in families:
        count = pages_read(p, algorithm_of(plan.main).tile)
        out["kv_indptr"] = int32(offsets(p.key_lengths()))
        out["kv_page_indices"] = np.zeros(count, np.int32) if read is None else _pages(p, read("block_table"), count)
    return out


def pages_read(problem: Problem, tile: tuple[int, ...]) -> int:
    """Number of entries of ``kv_page_indices`` that batch prefill may read: at least one per key.

    A workgroup reads the entries of whole key tiles (bn0), and those of V one step of the second product (bk1) ahead.
    It does not compare them with the sequence's end. For the last sequence it therefore reads past the end of the
    array, unless the array is made longer. Source: block_fmha_batch_prefill_pipeline_qr_ks_vs_async.hpp
    (``k_offsets``, ``v_offsets``); upstream's report https://github.com/ROCm/rocm-libraries/pull/6932.
    """
    keys, ahead = tile[1], tile[4]
    lengths = problem.key_lengths()
    return max(start - (-count // keys) * keys + ahead for start, count in zip(offsets(lengths), lengths, strict=False))


def _pages(problem: Problem, table: Array, count: int) -> Array:
    """The one-key pages of each sequence in turn; the last page is repeated until there are ``count`` entries.

    Raises:
        InternalError: a page holds more than one key, which the baseline's kernels cannot read.
    """
    if problem.kv_cache.page != 1:
        raise InternalError("batch prefill reads pages of one key", where="--kv-cache")
    pages = np.concatenate([table[b, :length] for b, length in enumerate(problem.key_lengths())]).astype(np.int32)
    behind = pages[-1] if len(pages) else 0
    return np.concatenate([pages, np.full(count - len(pages), behind, np.int32)])
