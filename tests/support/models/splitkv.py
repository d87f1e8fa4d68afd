"""Split-KV: attention over parts of the keys, and the combination of the parts.

Source: the combine step of flash decoding (Dao et al., 2023), ROCm/composable_kernel
``fmha_fwd_splitkv_combine_kernel.hpp``. The result equals the unsplit one.
"""

from __future__ import annotations

import numpy as np

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.dropout import Stream, fmha_stream
from fmha_cli.oracle.reference import attend
from fmha_cli.oracle.rows import Rows, all_rows
from fmha_cli.oracle.scores import row_blocks
from fmha_cli.oracle.tensors import F64, Inputs, SequenceView


def split_ranges(keys: int, splits: int) -> list[tuple[int, int]]:
    """(first, end) of each split: equal parts, the last ones shorter or empty."""
    size = -(-keys // splits)
    return [(min(n * size, keys), min((n + 1) * size, keys)) for n in range(splits)]


def partials(
    problem: Problem, inputs: Inputs, splits: int, *, rows: Rows | None = None, stream: Stream = fmha_stream
) -> tuple[F64, F64]:
    """Normalised O (splits, rows, hdim_v) and LSE (splits, rows) of every split; an empty one gives 0 and -inf.

    The learned sink is left to :func:`combine`.
    """
    rows = all_rows(problem) if rows is None else rows
    o, lse = np.zeros((splits, len(rows), problem.hdim_v)), np.full((splits, len(rows)), -np.inf)
    for b, g, part in rows.groups(problem):
        view = SequenceView(problem, inputs, b)
        k, v = view.keys64("k", g), view.keys64("v", g)
        first = part.start
        for block in row_blocks(view, rows.h[part], rows.i[part]):
            target = slice(first, first + len(block.i))
            first = target.stop
            for n, keys in enumerate(split_ranges(view.seqlen_k, splits)):
                with np.errstate(invalid="ignore", over="ignore"):
                    result = attend(block, k, v, stream, keys)
                o[n, target], lse[n, target] = result.o, result.lse
    return o, lse


def combine(o: F64, lse: F64, sinks: F64 | None = None) -> tuple[F64, F64]:
    """O (rows, hdim_v) and LSE (rows,) of partial results; ``sinks`` (rows,) is added to the denominator."""
    every = lse if sinks is None else np.concatenate([lse, sinks[None]])
    top = every.max(axis=0)
    safe = np.where(np.isneginf(top), 0.0, top)
    total = np.exp(every - safe).sum(axis=0)
    some = total > 0
    weights = np.exp(lse - safe) / np.where(some, total, 1.0)
    return np.einsum("nr,nrd->rd", weights, o), np.where(some, safe + np.log(np.where(some, total, 1.0)), -np.inf)
