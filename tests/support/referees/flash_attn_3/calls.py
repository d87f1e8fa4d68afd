"""The call of upstream's ``mha_fwd`` for a problem, from the problem alone: this module does not use the product's view."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.features import CacheKind, Mode
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem

NAMES = {"fp16": "fp16", "bf16": "bf16", "fp8_e4m3": "fp8_e4m3"}


@dataclass(frozen=True)
class NoCall(Exception):
    """Upstream's interface cannot express the problem."""

    what: str


def tensor(dtype: str, address: int, *sizes: int) -> str:
    """A dense tensor in the program's input format."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return f"{dtype}:{address}:{_list(sizes)}:{_list(reversed(strides))}"


def _list(numbers: object) -> str:
    return ",".join(map(str, numbers))  # type: ignore[call-overload]


def line_of(p: Problem, multiprocessors: int) -> str:
    """The call in the program's input format (``flash_attn_interface.py``).

    Raises:
        NoCall: upstream has no such feature.
    """
    if p.alibi.value != "none" or p.bias.value != "none" or p.sink or p.sink_logits or p.dropout:
        raise NoCall("a bias, a sink or dropout")
    left, right = _windows(p)
    causal = (left, right) == (-1, 0)
    words: dict[str, object] = {
        "multiprocessors": multiprocessors,
        "softmax_scale": repr(p.scale),
        "softcap": repr(p.softcap),
        "is_causal": int(causal),
        "window_size_left": left,
        "window_size_right": -1 if causal else right,
        "num_splits": p.splits,
    }
    dtype, int32 = NAMES[p.dtype.value], "int32"
    packed, cached = p.mode is Mode.GROUP, p.kv_cache.kind is not CacheKind.NONE
    rows = (sum(p.query_lengths()),) if packed else (p.batch, p.seqlen_q)
    hdim = p.mla_rope or p.hdim
    words["q"] = tensor(dtype, 1 << 30, *rows, p.heads, hdim)
    if p.mla_rope:  # V is K's first columns: the product of Q and K is that of their further columns, and q_v * v
        words["q_v"] = tensor(dtype, 8 << 32, *rows, p.heads, p.hdim_v)
    if packed:
        words |= {"cu_seqlens_q": tensor(int32, 1 << 20, p.batch + 1), "max_seqlen_q": max(p.query_lengths())}
    for at, (name, width) in enumerate((("k", hdim), ("v", p.hdim_v))):
        if p.paged:
            sizes: tuple[int, ...] = (_width(p) * p.batch, p.kv_cache.page)
        elif cached:
            sizes = (p.cache_batch, p.cache_rows)
        else:
            sizes = (sum(p.key_lengths()),) if packed else (p.batch, p.seqlen_k)
        words[name] = tensor(dtype, (2 + at) << 30, *sizes, p.kv_heads, width)
    if cached:
        words["seqused_k"] = tensor(int32, 1 << 21, p.batch)
    elif packed:
        words |= {"cu_seqlens_k": tensor(int32, 1 << 22, p.batch + 1), "max_seqlen_k": max(p.key_lengths())}
    if p.paged:
        words["page_table"] = tensor(int32, 1 << 23, p.batch, _width(p))
    if p.cache_leftpad is not None:
        words["leftpad_k"] = tensor(int32, 1 << 24, p.batch)
    if p.cache_batch_idx is not None:
        words["kv_batch_idx"] = tensor(int32, 1 << 25, p.batch)
    if p.append:
        words |= {
            f"{n}_new": tensor(dtype, 5 << 30, p.batch, p.append, p.kv_heads, w)
            for n, w in (("k", hdim), ("v", p.hdim_v))
        }
    if p.append and p.rotary.dim:
        rows_of = max(1, p.positions, _width(p) * p.kv_cache.page if p.paged else p.cache_rows)
        words |= {
            f"rotary_{n}": tensor(dtype, at << 32, rows_of, p.rotary.dim // 2) for n, at in (("cos", 6), ("sin", 7))
        }
        words["is_rotary_interleaved"] = int(p.rotary.style.value == "interleaved")
    return " ".join(f"{name}={value}" for name, value in words.items())


def _width(p: Problem) -> int:
    return -(-max(1, p.seqlen_k) // p.kv_cache.page)


def _windows(p: Problem) -> tuple[int, int]:
    """The mask bounds from the bottom-right corner, if they are the same for every sequence; -1 is unlimited."""
    shifts = {0}
    if p.mask.align is Align.TOP_LEFT:
        shifts = {k - q for q, k in zip(p.query_lengths(), p.key_lengths(), strict=True) if q} or {0}
    if len(shifts) != 1:
        raise NoCall("mask from the top left over sequences of different lengths")
    (shift,) = shifts
    left = -1 if p.mask.left is None else p.mask.left + shift
    right = -1 if p.mask.right is None else p.mask.right - shift
    if (left < 0 and p.mask.left is not None) or (right < 0 and p.mask.right is not None):
        raise NoCall("a mask bound on the other side of the diagonal")
    return left, right
