"""A cache given as tensors: lengths that follow from it, its extents beyond the problem's use, and the pages of its
table.

A given cache is a part of a server's memory: it may have more pages or rows than the sequences use, sequences may share pages,
and unused parts may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.errors import ImpossibleProblem, UsageError
from fmha_cli.domain.features import CacheKind, CacheStorage, Layout, QScale
from fmha_cli.domain.flags import parse_list, parse_size
from fmha_cli.domain.impossible import impossible
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import ROTARY_TABLES, TensorShape, page_count, pages_of, table_width

Arrays = Mapping[str, npt.NDArray[Any]]

UNUSED = -1
_RANK, _TABLE_RANK = 4, 2


def cache_lengths(flags: Mapping[str, object], arrays: Arrays) -> dict[str, str]:
    """``cache_seqlens`` where no flag gives the lengths: all rows of a linear cache are in use.

    Raises:
        ImpossibleProblem: P007, pages without lengths.
    """
    kind = str(flags.get("kv_cache", "none")).partition(":")[0]
    if kind == CacheKind.NONE.value or {"cache_seqlens", "seqlen_k"} & flags.keys():
        return {}
    held = next((arrays[name] for name in ("k", "v") if name in arrays), None)
    if kind == CacheKind.PAGED.value and (held is not None or "block_table" in arrays):
        what, why = "given pages without --cache-seqlens", "pages do not say how many keys they hold"
        raise impossible("P007", what, "--cache-seqlens", why, "--cache-seqlens N, or N,N... for each sequence")
    if held is None or held.ndim != _RANK:
        return {}
    bshd = str(flags.get("layout", Layout.BHSD.value)).partition(":")[0] == Layout.BSHD.value
    padding = parse_list(str(flags.get("cache_leftpad", "0")), "--cache-leftpad")
    appended = parse_size(str(flags.get("append", "0")), "--append")
    rows = held.shape[1 if bshd else 2]
    return {"cache_seqlens": ",".join(str(rows - pad - appended) for pad in padding)}


def stored(problem: Problem, arrays: Arrays) -> Problem:
    """The problem with the extents of its given cache. Arrays of a wrong rank are left to the check of all shapes."""
    held = next((arrays[name] for name in ("k", "v") if name in arrays and arrays[name].ndim == _RANK), None)
    if problem.paged:
        return replace(problem, storage=_pool(problem, arrays, held))
    if problem.kv_cache.kind is CacheKind.NONE or held is None:
        return problem
    rows = held.shape[2 if problem.layout is Layout.BHSD else 1]
    return replace(problem, storage=CacheStorage(rows=rows if rows > problem.cache_rows else 0))


def _pool(problem: Problem, arrays: Arrays, held: npt.NDArray[Any] | None) -> CacheStorage:
    plain, table = replace(problem, storage=CacheStorage()), arrays.get("block_table")
    scales = [arrays[name] for name in ("k_descale", "v_descale") if name in arrays]
    pages, width, keys = page_count(plain), table_width(plain), sum(plain.key_lengths())
    if table is not None and table.ndim == _TABLE_RANK and table.shape[0] == problem.batch:
        width, keys = max(width, table.shape[1]), _distinct_keys(plain, table)
    if held is not None:
        pages = held.shape[0]
    elif scales and problem.qscale is QScale.KV_BLOCK:
        pages = scales[0].shape[0]
    return CacheStorage(
        pages=0 if pages == page_count(plain) else pages,
        table=0 if width == table_width(plain) else width,
        keys=0 if keys == sum(plain.key_lengths()) else keys,
    )


def _used(problem: Problem, table: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """The places of the table that name pages of keys."""
    counts = [[pages_of(n, problem.kv_cache.page)] for n in problem.key_lengths()]
    used: npt.NDArray[np.bool_] = np.arange(table.shape[1])[None, :] < np.array(counts)
    return used


def _distinct_keys(problem: Problem, table: npt.NDArray[Any]) -> int:
    """Rows of the pages that are in use, each counted once."""
    page, used = problem.kv_cache.page, _used(problem, table)
    left = np.array(problem.key_lengths())[:, None] - np.arange(table.shape[1])[None, :] * page
    names, place = np.unique(table[used], return_inverse=True)
    rows = np.zeros(len(names), np.int64)
    np.maximum.at(rows, place.reshape(-1), np.minimum(left[used], page))
    return int(rows.sum())


def check_pages(problem: Problem, table: npt.NDArray[Any]) -> None:
    """Every page of a sequence's keys must exist, and a page that a sequence appends to must be its own.

    Raises:
        UsageError: E042, a page that does not exist: a kernel would read and write beyond the cache.
        ImpossibleProblem: P022, a page to which one sequence appends and which another one reads or writes.
    """
    pages, used = page_count(problem), _used(problem, table)
    wrong = np.argwhere(used & ((table < 0) | (table >= pages)))
    if len(wrong):
        b, slot = (int(n) for n in wrong[0])
        held = "unused (-1)" if table[b, slot] == UNUSED else f"page {table[b, slot]}"
        what = f"the block table of sequence {b} has {held} at place {slot}"
        why = f"the cache has pages 0 to {pages - 1}, and the {problem.key_lengths()[b]} keys need {int(used[b].sum())}"
        raise UsageError(what, code="E042", where="--block-table", why=why, help="correct the table")
    if problem.append and problem.cache_seqlens is not None:
        _check_appends(problem, table, used)


def _check_appends(problem: Problem, table: npt.NDArray[Any], used: npt.NDArray[np.bool_]) -> None:
    assert problem.cache_seqlens is not None
    first = np.array(problem.cache_seqlens)[:, None] // problem.kv_cache.page
    written = used & (np.arange(table.shape[1])[None, :] >= first)
    names, counts = np.unique(table[used], return_counts=True)
    shared = np.argwhere(written & np.isin(table, names[counts > 1]))
    if not len(shared):
        return
    b, slot = (int(n) for n in shared[0])
    page = int(table[b, slot])
    others = [(int(o), int(s)) for o, s in np.argwhere(used & (table == page)) if (o, s) != (b, slot)]
    other, place = others[0]
    verb = "appends to" if written[other, place] else "reads"
    what = f"sequence {b} appends to page {page}, which sequence {other} {verb} too"
    if other == b:
        what = f"sequence {b} appends to page {page}, which its block table names twice"
    why = "what a page holds would depend on which sequence comes first"
    help = f"give sequence {b} a page of its own at place {slot}"
    raise ImpossibleProblem(what, code="P022", where="--block-table", why=why, help=help)


def check_rotary(problem: Problem, name: str, table: npt.NDArray[Any]) -> None:
    """Refuse a rotary table of another shape, or with fewer rows than positions. Raises ImpossibleProblem: P015."""
    half, flag = problem.rotary.dim // 2, f"--{name.replace('_', '-')}"
    if table.ndim == _TABLE_RANK and table.shape[1] == half and table.shape[0] >= problem.positions:
        return
    what = f"{name} has shape {table.shape}, the problem needs ({problem.positions} or more, {half})"
    why = f"a row for each position, of which {problem.positions} are used, with a number for each of {half} pairs"
    raise ImpossibleProblem(what, code="P015", where=flag, why=why, help="a longer table, or another --rotary")


def in_use(problem: Problem, name: str, array: npt.NDArray[Any], want: TensorShape) -> npt.NDArray[Any]:
    """The part of a given tensor that the problem's own holds: a linear cache has as many sequences, its scales by block as
    many blocks, a rotary table as many positions. Entries of the table that no key uses are -1 where their page does
    not exist."""
    if name == "block_table" and array.shape == want.shape and array.dtype.kind == "i":
        exists = (array >= 0) & (array < page_count(problem))
        return np.where(_used(problem, array) | exists, array, UNUSED)
    if name in ROTARY_TABLES and array.ndim == len(want.shape):
        return array[: want.shape[0]]
    linear = problem.kv_cache.kind is CacheKind.LINEAR
    if not linear or array.ndim != len(want.shape):
        return array
    if name in ("k", "v", "k_scale", "v_scale"):
        return array[: want.shape[0]]
    return array[..., : want.shape[-1]] if name in ("k_descale", "v_descale") else array


def storage_notes(problem: Problem) -> list[str]:
    """How much of a given cache is used, in words; empty if it equals a filled one."""
    if problem.storage.pages:
        pages, page = problem.storage.pages, problem.kv_cache.page
        return [f"the given cache has {pages} pages with {pages * page} rows, of which {problem.held_keys} are used"]
    if problem.storage.rows:
        rows = problem.cache_batch * problem.cache_rows
        return [f"the given cache has {rows} rows, of which {problem.held_keys} are used"]
    return []
