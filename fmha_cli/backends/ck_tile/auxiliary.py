"""Small arrays that kernels read beside the problem's tensors. The session uploads them and owns their memory.

``seqstart_q``, ``seqstart_k`` (batch + 1), ``seqlen_k``, ``cache_seqlens`` (batch), ``kv_indptr`` (batch + 1) and
``kv_page_indices`` (``pages_read``) are int32; ``rotary_cos`` and ``rotary_sin`` (positions, rotary dim / 2) have the
element type of K and hold its rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.ck_tile.condition import algorithm_of
from fmha_cli.dtypes import DType
from fmha_cli.errors import InternalError
from fmha_cli.features import CacheKind, Mode
from fmha_cli.kernel import Family
from fmha_cli.plan import Plan
from fmha_cli.problem import Problem
from fmha_cli.tensors import offsets

Array = npt.NDArray[np.generic]
ReadTensor = Callable[[str], Array]

ROTARY_BASE = 10000.0
"""Contract, section 1: ``--rotary``."""


def auxiliaries_of(plan: Plan, read: ReadTensor | None) -> dict[str, Array]:
    """The arrays of a plan, by name.

    Args:
        read: a tensor's present content; without it (a dry run) what depends on contents is zeros of its size.
    """
    p = plan.problem
    families = {stage.family for stage in plan.stages}
    out: dict[str, Array] = {}
    if p.mode is Mode.GROUP:
        out["seqstart_q"] = _int32(offsets(p.query_lengths()))
        out["seqstart_k"] = _int32(offsets(p.key_lengths()))
    if p.kv_cache.kind is not CacheKind.NONE:
        out["seqlen_k"] = _int32(p.key_lengths())
    if Family.FWD_APPENDKV in families:
        out["cache_seqlens"] = _int32(p.cache_seqlens or ())
        if p.rotary.dim:
            out |= rotary_tables(p)
    if Family.BATCH_PREFILL in families:
        count = pages_read(p, algorithm_of(plan.main).tile)
        out["kv_indptr"] = _int32(offsets(p.key_lengths()))
        out["kv_page_indices"] = np.zeros(count, np.int32) if read is None else _pages(p, read("block_table"), count)
    return out


def pages_read(problem: Problem, tile: tuple[int, ...]) -> int:
    """Entries of ``kv_page_indices`` that batch prefill may read, at least one a key.

    A workgroup reads the entries of whole tiles of keys (bn0), and those of V one step of the second product (bk1)
    ahead; nothing compares with the sequence's end. Behind the last sequence that is behind the array, unless it is
    longer. Source: block_fmha_batch_prefill_pipeline_qr_ks_vs_async.hpp (``k_offsets``, ``v_offsets``); upstream's
    report https://github.com/ROCm/rocm-libraries/pull/6932.
    """
    keys, ahead = tile[1], tile[4]
    lengths = problem.key_lengths()
    return max(start - (-count // keys) * keys + ahead for start, count in zip(offsets(lengths), lengths, strict=False))


def _int32(values: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.asarray(values, np.int32)


def _pages(problem: Problem, table: Array, count: int) -> Array:
    """The pages of one key each, sequence after sequence, then the last one again up to ``count`` entries.

    Raises:
        InternalError: pages of more keys, which the baseline's kernels cannot read.
    """
    if problem.kv_cache.page != 1:
        raise InternalError("batch prefill reads pages of one key", where="--kv-cache")
    pages = np.concatenate([table[b, :length] for b, length in enumerate(problem.key_lengths())]).astype(np.int32)
    behind = pages[-1] if len(pages) else 0
    return np.concatenate([pages, np.full(count - len(pages), behind, np.int32)])


def rotary_tables(problem: Problem) -> dict[str, Array]:
    """Cosine and sine of every (position, frequency): angle = position * 10000^(-2i / dim)."""
    dim = problem.rotary.dim
    positions = max(1, *problem.key_lengths())
    angle = np.arange(positions)[:, None] * ROTARY_BASE ** (-np.arange(0, dim, 2) / dim)[None, :]
    return {name: rounded(f(angle), problem.dtype) for name, f in (("rotary_cos", np.cos), ("rotary_sin", np.sin))}


def rounded(values: npt.NDArray[np.float64], dtype: DType) -> Array:
    """To the kernel's element type, nearest even; bf16 as its bits, since numpy has no such type.

    Raises:
        InternalError: a type without rotary kernels.
    """
    if dtype is DType.FP16:
        return values.astype(np.float16)
    if dtype is DType.BF16:
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    raise InternalError(f"no rotary tables in {dtype.value}", where="--rotary")
