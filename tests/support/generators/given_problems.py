"""Small problems that together read every tensor, with their arrays and their outputs by a formula in numpy's float64.

Nothing here comes from the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

B, H, G, S, K, D, PAGE, NEW = 2, 4, 2, 5, 12, 16, 8, 3
"""batch, heads, key/value heads, queries, keys, head dim, rows of a page, appended keys."""


@dataclass(frozen=True)
class GivenProblem:
    """A problem.

    Attributes:
        flags: as Python arguments; they say the sizes too, which also follow from the tensors.
        tensors: every tensor that the problem reads, by the name of its flag.
        o: (batch, heads, queries, head dim).
        more: further outputs by name.
        said: flags that follow from the tensors alone: types, and that there are slopes or sinks.
    """

    flags: Mapping[str, Any]
    tensors: Mapping[str, Any]
    o: Any
    more: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, Any] = field(default_factory=lambda: {"dtype": "fp32"})


SIZES = {"batch": B, "heads": H, "kv_heads": G, "seqlen": S, "seqlen_k": K, "hdim": D}


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def attention(q: Any, k: Any, v: Any, *, bias: Any = 0.0, sinks: Any = None, do: Any = None) -> dict[str, Any]:
    """O, and with dO the gradients. bias broadcasts to (batch, heads, queries, keys)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(x, group, 1) for x in (k, v))
    scores = np.einsum("bhid,bhjd->bhij", q, keys) * D**-0.5 + bias
    top = scores.max(-1, keepdims=True)
    top = top if sinks is None else np.maximum(top, sinks[None, :, None, None])
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    total = total if sinks is None else total + np.exp(sinks[None, :, None, None].astype(np.float64) - top)
    p = weights / total
    out = {"o": np.einsum("bhij,bhjd->bhid", p, values)}
    if do is None:
        return out
    do = do.astype(np.float64)
    dp = np.einsum("bhid,bhjd->bhij", do, values)
    ds = p * (dp - (do * out["o"]).sum(-1, keepdims=True)) * D**-0.5
    per_head = {"dk": np.einsum("bhij,bhid->bhjd", ds, q), "dv": np.einsum("bhij,bhid->bhjd", p, do)}
    folded = {name: x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2) for name, x in per_head.items()}
    return {**out, "dq": np.einsum("bhij,bhjd->bhid", ds, keys), **folded}


def _plain() -> tuple[Any, Any, Any]:
    return normal(1, B, H, S, D), normal(2, B, G, K, D), normal(3, B, G, K, D)


def _backward() -> GivenProblem:
    q, k, v = _plain()
    do = normal(4, B, H, S, D)
    found = attention(q, k, v, do=do)
    return GivenProblem(
        {**SIZES, "direction": "fwd+bwd"}, {"q": q, "k": k, "v": v, "do": do}, found.pop("o"), more=found
    )


def _bias() -> GivenProblem:
    q, k, v = _plain()
    bias = normal(5, 1, H, S, K)
    return GivenProblem(
        {**SIZES, "bias": "elementwise:1hss"},
        {"q": q, "k": k, "v": v, "bias_file": bias},
        attention(q, k, v, bias=bias)["o"],
    )


def _slopes() -> GivenProblem:
    q, k, v = _plain()
    slopes = np.abs(normal(6, B, H))
    distance = np.abs(np.arange(S)[:, None] + K - S - np.arange(K)[None, :])
    bias = -slopes[:, :, None, None].astype(np.float64) * distance
    said = {"dtype": "fp32", "alibi_slopes": "filled:bh"}
    return GivenProblem(
        SIZES, {"q": q, "k": k, "v": v, "alibi_slopes": slopes}, attention(q, k, v, bias=bias)["o"], said=said
    )


def _sinks() -> GivenProblem:
    q, k, v = _plain()
    sinks = normal(7, H) + 2
    said = {"dtype": "fp32", "sink_logits": "filled"}
    return GivenProblem(
        SIZES, {"q": q, "k": k, "v": v, "sink_logits": sinks}, attention(q, k, v, sinks=sinks)["o"], said=said
    )


def _paged() -> GivenProblem:
    q, k, v = _plain()
    table = np.array([[3, 0], [4, 1]], np.int32)
    pools = [np.full((5, PAGE, G, D), np.nan, np.float32) for _ in range(2)]
    for pool, x in zip(pools, (k, v), strict=True):
        for b in range(B):
            for slot, page in enumerate(table[b]):
                rows = x[b, :, slot * PAGE : (slot + 1) * PAGE].swapaxes(0, 1)
                pool[page, : len(rows)] = rows
    flags = {**SIZES, "kv_cache": f"paged:{PAGE}", "cache_seqlens": (K, K)}
    return GivenProblem(flags, {"q": q, "k": pools[0], "v": pools[1], "block_table": table}, attention(q, k, v)["o"])


def _append() -> GivenProblem:
    q, k, v = _plain()
    new = slice(K - NEW, K)
    caches = {name: x.copy() for name, x in (("k", k), ("v", v))}
    for cache in caches.values():
        cache[:, :, new] = np.nan
    tensors = {"q": q, **caches, "k_new": k[:, :, new].copy(), "v_new": v[:, :, new].copy()}
    flags = {**SIZES, "kv_cache": "linear", "append": NEW}
    return GivenProblem(flags, tensors, attention(q, k, v)["o"])


def _rotary() -> GivenProblem:
    """Tables that belong to no angles, for the first half of every head: pair t is (t, t + D / 4)."""
    q, k, v = _plain()
    cos, sin = normal(8, K, D // 4), normal(9, K, D // 4)
    tables, pair = (cos.astype(np.float64), sin.astype(np.float64)), D // 4

    def turned(x: Any, first: int) -> Any:
        out, (c, s) = x.astype(np.float64), (table[first : first + x.shape[2]] for table in tables)
        a, b = out[..., :pair].copy(), out[..., pair : 2 * pair].copy()
        out[..., :pair], out[..., pair : 2 * pair] = a * c - b * s, a * s + b * c
        return out

    new = slice(K - NEW, K)
    keys = np.concatenate([k[:, :, : K - NEW], turned(k[:, :, new], K - NEW)], axis=2)
    caches = {name: x.copy() for name, x in (("k", k), ("v", v))}
    for cache in caches.values():
        cache[:, :, new] = np.nan
    tensors = {"q": q, **caches, "k_new": k[:, :, new].copy(), "v_new": v[:, :, new].copy()}
    flags = {**SIZES, "kv_cache": "linear", "append": NEW, "rotary": D // 2}
    said = {"dtype": "fp32", "rotary_cos": "filled", "rotary_sin": "filled"}
    tensors |= {"rotary_cos": cos, "rotary_sin": sin}
    return GivenProblem(flags, tensors, attention(turned(q, K - S), keys, v)["o"], said=said)


def _scales() -> GivenProblem:
    q, k, v = _plain()
    held = {name: np.rint(x * 32).clip(-127, 127).astype(np.int8) for name, x in (("k", k), ("v", v))}
    scales = {f"{name}_descale": np.array([1 / 32 + n / 512], np.float32) for n, name in enumerate("kv")}
    real = {name: x.astype(np.float64) * scales[f"{name}_descale"] for name, x in held.items()}
    flags = {**SIZES, "kv_cache": "linear", "qscale": "tensor"}
    said = {"dtype": "fp32", "kv_dtype": "int8"}
    return GivenProblem(flags, {"q": q, **held, **scales}, attention(q, real["k"], real["v"])["o"], said=said)


def _query_scales() -> GivenProblem:
    q, k, v = (x.astype(ml_dtypes.float8_e4m3fn) for x in _plain())
    scales = {f"{name}_descale": np.array([0.5 + n / 4], np.float32) for n, name in enumerate("qkv")}
    real = [x.astype(np.float64) * scales[f"{name}_descale"] for name, x in zip("qkv", (q, k, v), strict=True)]
    flags = {**SIZES, "qscale": "tensor", "dtype": "fp8_e4m3:fp32"}
    return GivenProblem(flags, {"q": q, "k": k, "v": v, **scales}, attention(*real)["o"], said={})


CASES: Mapping[str, Callable[[], GivenProblem]] = {
    "gradients": _backward,
    "bias": _bias,
    "slopes": _slopes,
    "sinks": _sinks,
    "pages": _paged,
    "appended keys": _append,
    "rotary tables": _rotary,
    "scales of a cache": _scales,
    "scales of queries": _query_scales,
}
