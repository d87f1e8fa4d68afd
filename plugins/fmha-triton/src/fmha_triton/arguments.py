"""The values of a kernel's arguments, by the names of its parameters, and the small arrays that all kernels read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from fmha_cli import api, plugin
from fmha_triton.plan import heads_in_turn, key_blocks, tiles_of

UNLIMITED = 1 << 30
"""A bound of the mask that hides nothing; positions are added to it in 32 bits (rule K965)."""
_ROWS = {"q": "q", "o": "o", "do": "do", "dq": "dq"}
_KEYS = {"k": "k", "v": "v", "dk": "dk", "dv": "dv"}
_POINTERS = {
    "Q": "q", "K": "k", "V": "v", "Bias": "bias", "Slopes": "alibi_slopes", "Sinks": "sink_logits", "Out": "o",
    "Lse": "lse", "DescaleQ": "q_descale", "DescaleK": "k_descale", "DescaleV": "v_descale", "Table": "block_table",
    "DOut": "do", "DQ": "dq", "DK": "dk", "DV": "dv", "PartialOut": "partial_o", "PartialLse": "partial_lse",
    "Sums": "sums", "QStart": "q_start", "QLen": "q_len", "KStart": "k_start", "KLen": "k_len",
}  # fmt: skip


def auxiliaries(problem: api.Problem) -> dict[str, Any]:
    """First row and number of rows of every sequence, int32. Batched tensors start each sequence at row 0 of its own."""
    packed = problem.mode is plugin.Mode.GROUP
    cached = problem.kv_cache.kind is not plugin.CacheKind.NONE
    q, k = problem.query_lengths(), problem.key_lengths()
    zeros = (0,) * problem.batch

    def starts(lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(accumulate(lengths, initial=0))[:-1]

    arrays = {
        "q_start": starts(q) if packed else zeros,
        "q_len": q,
        "k_start": problem.leftpads() if cached else starts(k) if packed else zeros,
        "k_len": k,
    }
    return {name: np.asarray(values, np.int32) for name, values in arrays.items()}


def values_of(kernel: api.KernelSpec, call: plugin.Call[None], splits: int) -> dict[str, int | float]:
    """A value for every name of an argument that any kernel has."""
    p = call.problem
    mask = p.mask
    out: dict[str, int | float] = {name: call.address(tensor) for name, tensor in _POINTERS.items()}
    out |= _strides(call)
    out |= {
        "rows": p.seqlen_q,
        "keys": p.seqlen_k,
        "heads": p.heads,
        "group": p.heads // p.kv_heads,
        "most_rows": p.seqlen_q,
        "key_blocks": key_blocks(p, kernel) if kernel.family is plugin.Family.BWD_DQ_DK_DV else 0,
        "splits": splits,
        "tiles": tiles_of(p, kernel),
        "neighbours": heads_in_turn(p, kernel),
        "page": max(1, p.kv_cache.page),
        "table_width": call.tensor("block_table").shape[1] if p.paged else 0,
        "hdim": p.hdim,
        "hdim_v": p.hdim_v,
        "scale": p.scale,
        "softcap": p.softcap or 1.0,
        "left": UNLIMITED if mask.left is None else mask.left,
        "right": UNLIMITED if mask.right is None else mask.right,
        "top_left": int(mask.delta(0, 1) == 0),
        "sink": p.sink,
        "has_sinks": int(p.sink_logits),
        "has_lse": int("lse" in call.tensors),
    }
    return out


def _strides(call: plugin.Call[None]) -> Mapping[str, int]:
    tensors, p = call.tensors, call.problem
    out: dict[str, int] = {}
    for name in (*_ROWS, *_KEYS):
        if name not in tensors:
            out |= {f"{name}_batch": 0, f"{name}_head": 0, f"{name}_row": 0}
            continue
        strides = call.keys(name) if name in ("k", "v") else call.rows(name)
        out |= {f"{name}_batch": strides.batch, f"{name}_head": strides.head, f"{name}_row": strides.row}
    out |= {"bias_batch": 0, "bias_head": 0, "bias_row": 0, "lse_batch": 0, "lse_head": 0}
    if "bias" in tensors:
        bias = tensors["bias"]
        names, kept = ("bias_batch", "bias_head", "bias_row"), zip(bias.strides, bias.shape[:3], strict=False)
        out |= {name: stride if size > 1 else 0 for name, (stride, size) in zip(names, kept, strict=True)}
    if "lse" in tensors:
        *batches, head, _ = tensors["lse"].strides
        out |= {"lse_batch": batches[0] if batches else 0, "lse_head": head}
    per_batch = p.alibi is plugin.Alibi.BATCH_HEADS
    per_head = p.qscale is plugin.QScale.HEAD
    out["slope_batch"] = p.heads if per_batch else 0
    out |= {"descale_batch": p.kv_heads if per_head else 0, "descale_head": int(per_head)}
    return out
