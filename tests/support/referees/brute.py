"""A second implementation of the contract's formulas, element by element, independent of the oracle.

It is plain Python over float64 scalars (``math.fsum``) with masks from ``Mask.visible``. The cost is O(seqlen^2), so it
suits only small problems.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fmha_cli.domain.problem import Problem

Tensors = Mapping[str, Any]


def row_of(p: Problem, tensor: Any, layout: str, lengths: tuple[int, ...], b: int, head: int, n: int) -> list[float]:
    """Row ``n`` of one sequence and head, as floats."""
    if p.seqlens_q is not None:
        n += sum(lengths[:b])
        row = tensor[head, n] if layout == "bhsd" else tensor[n, head]
    else:
        row = tensor[b, head, n] if layout == "bhsd" else tensor[b, n, head]
    return [float(x) for x in row]


def key_of(p: Problem, t: Tensors, name: str, b: int, g: int, j: int) -> list[float]:
    """Key or value ``j``, wherever it is stored (without appended rows)."""
    layout = p.layout.value
    if p.paged:
        page = p.kv_cache.page
        return [float(x) for x in t[name][int(t["block_table"][b][j // page])][j % page][g]]
    if p.cache_seqlens is not None:
        j += pad_of(p, b)
        row = t[name][b, g, j] if layout == "bhsd" else t[name][b, j, g]
        return [float(x) for x in row]
    return row_of(p, t[name], layout, p.key_lengths(), b, g, j)


def pad_of(p: Problem, b: int) -> int:
    """The number of cache rows before the first key of one sequence."""
    return 0 if p.cache_leftpad is None else p.cache_leftpad[b]


def turned(x: list[float], position: int, p: Problem) -> list[float]:
    """``x`` after rotary embedding at ``position``."""
    dim, out = p.rotary.dim, list(x)
    for pair in range(dim // 2):
        angle = position * 10000.0 ** (-2 * pair / dim)
        a, b = (pair, pair + dim // 2) if p.rotary.style.value == "half" else (2 * pair, 2 * pair + 1)
        out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        out[b] = x[a] * math.sin(angle) + x[b] * math.cos(angle)
    return out


def sequence(p: Problem, t: Tensors, b: int, h: int) -> tuple[list[list[float]], list[list[float]], list[list[float]]]:
    """The queries, keys and values of one sequence and query head, after append and rotation."""
    g = h // (p.heads // p.kv_heads)
    rows, keys = p.query_lengths()[b], p.key_lengths()[b]
    held = p.cache_seqlens[b] if p.cache_seqlens is not None else keys
    q = [row_of(p, t["q"], p.layout.value, p.query_lengths(), b, h, i) for i in range(rows)]
    k = [key_of(p, t, "k", b, g, j) for j in range(held)]
    v = [] if p.v_in_k else [key_of(p, t, "v", b, g, j) for j in range(held)]
    q = [turned(x, pad_of(p, b) + keys - rows + i, p) for i, x in enumerate(q)]
    for n in range(p.append):
        new = t["k_new"][b, g, n] if p.layout.value == "bhsd" else t["k_new"][b, n, g]
        kept = np.array(turned([float(x) for x in new], pad_of(p, b) + held + n, p)).astype(t["k"].dtype)
        k.append([float(x) for x in kept])
        if not p.v_in_k:
            v.append([float(x) for x in (t["v_new"][b, g, n] if p.layout.value == "bhsd" else t["v_new"][b, n, g])])
    return q, k, [row[: p.hdim_v] for row in k] if p.v_in_k else v


def standard_slope(heads: int, h: int) -> float:
    """ALiBi slope of head ``h`` (contract, section 1)."""
    if heads & (heads - 1) == 0:
        return 2.0 ** (-8 * (h + 1) / heads)
    below = 1 << (heads.bit_length() - 1)
    return 2.0 ** (-8 * (h + 1) / below) if h < below else 2.0 ** (-8 * (2 * (h - below) + 1) / (2 * below))


def philox_word(seed: int, offset: int, c0: int, c1: int, c2: int, lane: int) -> int:
    """One output word of Philox 4x32-10, in plain integers."""
    x = [c0, c1, c2, offset]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for n in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        keys = ((k0 + n * 0x9E3779B9) & 0xFFFFFFFF, (k1 + n * 0xBB67AE85) & 0xFFFFFFFF)
        x = [(b >> 32) ^ x[1] ^ keys[0], b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ keys[1], a & 0xFFFFFFFF]
    return x[lane]


def slope_of(p: Problem, t: Tensors, b: int, h: int) -> float:
    """The slope of one head in a problem with ALiBi."""
    if p.alibi.value == "standard":
        return standard_slope(p.heads, h)
    return float(t["alibi_slopes"][h] if p.alibi.value == "h" else t["alibi_slopes"][b][h])


def attention(p: Problem, t: Tensors) -> dict[tuple[int, int, int], tuple[list[float], float]]:
    """(b, h, i) -> (O row, LSE)."""
    out = {}
    for b in range(p.batch):
        rows, keys = p.query_lengths()[b], p.key_lengths()[b]
        delta = 0 if p.mask.align.value == "top_left" else keys - rows
        for h in range(p.heads):
            q, k, v = sequence(p, t, b, h)
            for i in range(rows):
                seen = [j for j in range(keys) if p.mask.visible(i, j, rows, keys, p.sink)]
                seen = [j for j in seen if bias_of(p, t, (b, h, i, j)) != -math.inf]
                scores = [score(p, t, (b, h, i, j), q[i], k[j], delta) for j in seen]
                out[b, h, i] = softmax_row(p, t, (b, h, i), seen, scores, v)
    return out


def score(p: Problem, t: Tensors, at: tuple[int, int, int, int], q: list[float], k: list[float], delta: int) -> float:
    """One score, before the softmax."""
    b, h, i, j = at
    s = p.scale * math.fsum(x * y for x, y in zip(q, k, strict=True))
    if p.softcap > 0:
        s = p.softcap * math.tanh(s / p.softcap)
    if p.bias.value != "none":
        bias = t["bias"]
        at = (0 if letter == "1" else n for letter, n in zip(p.bias.value, (b, h, i), strict=False))
        s += float(bias[tuple(at)][j])
    if p.alibi.value != "none":
        s -= slope_of(p, t, b, h) * abs(i + delta - j)
    return s


def bias_of(p: Problem, t: Tensors, at: tuple[int, int, int, int]) -> float:
    """The elementwise bias of one pair, 0 without one."""
    if p.bias.value == "none":
        return 0.0
    b, h, i, j = at
    plane = t["bias"][b if len(t["bias"]) > 1 else 0][h if len(t["bias"][0]) > 1 else 0]
    return float(plane[i if len(plane) > 1 else 0][j])


def softmax_row(
    p: Problem, t: Tensors, at: tuple[int, int, int], seen: list[int], scores: list[float], v: list[list[float]]
) -> tuple[list[float], float]:
    """The O row and LSE of one query."""
    b, h, i = at
    sink = [float(t["sink_logits"][h])] if p.sink_logits else []
    if not scores and not sink:
        return [0.0] * p.hdim_v, -math.inf
    top = max(scores + sink)
    total = math.fsum(math.exp(s - top) for s in scores + sink)
    threshold = int(p.dropout * 2**32)
    o = [0.0] * p.hdim_v
    for s, j in zip(scores, seen, strict=True):
        weight = math.exp(s - top) / total
        if p.dropout:
            word = philox_word(p.seed, p.offset, j >> 2, i, b * p.heads + h, j & 3)
            weight = weight / (1 - threshold / 2**32) if word >= threshold else 0.0
        o = [x + weight * y for x, y in zip(o, v[j], strict=True)]
    return o, top + math.log(total)
