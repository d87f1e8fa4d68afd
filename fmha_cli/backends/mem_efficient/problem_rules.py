"""Rules K520-K533 of memory-efficient attention: its kernels' needs of a problem. Their texts are data."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.cuda.capability import capability
from fmha_cli.backends.gpu.arithmetic import GRID_END, SMALLEST_NORMAL, single
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together
from fmha_cli.backends.mem_efficient.scratch import Storage, storage_of
from fmha_cli.backends.mem_efficient.situation import BOTTOM_RIGHT, MemEfficientSituation
from fmha_cli.codegen.mem_efficient.algorithm import NAME
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Alibi, Bias
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature_hints import positive_scale, unpacked

SIGNED, UNSIGNED, BLOCKS_END, FP16_END = 1 << 31, 1 << 32, 1 << 15, 65520
"""The ends of 32-bit products and of 16-bit counts, and where fp16 is infinite."""


def _findings(s: MemEfficientSituation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    """The findings of each rule."""
    p, mask, text = s.problem, s.problem.mask, s.problem.mask.text()
    corner, unequal = s.mask_type == BOTTOM_RIGHT, any(q != k and q * k for q, k in s.lengths)
    plain = mask.left is None if mask.right is None else mask.right == 0 and (mask.left or 0) >= 0
    yield "K520", refuse_if(not plain, mask=text)
    yield "K521", refuse_if(corner and any(q > k > 0 for q, k in s.lengths), mask=text)
    yield "K522", refuse_if(corner and s.window and unequal, mask=text, left=mask.left)
    yield "K523", refuse_if(single(p.scale) < SMALLEST_NORMAL, scale=p.scale, help=positive_scale(p))
    left, plane = 1 - single(p.dropout), p.heads * p.seqlen_q * p.seqlen_k
    infinite = left <= 0 or (p.dtype is DType.FP16 and 1 / left >= FP16_END)
    yield "K524", refuse_if(infinite, dropout=p.dropout, dtype=p.dtype.value)
    long = plane >= SIGNED or p.batch * plane >= UNSIGNED
    yield "K525", refuse_if(p.dropout and long, batch=p.batch, plane=plane)
    yield "K526", refuse_if(p.alibi is not Alibi.NONE)
    yield "K527", refuse_if(s.apart and p.bias is not Bias.NONE, bias=p.bias.value, help=unpacked(p))
    yield "K528", refuse_if(p.paged, cache=p.kv_cache.text())
    products = _products(storage_of(p, kernel)) if s.launches else ()
    over = next((found for found in products if found[1] >= found[2]), ("", 0, 0))
    yield "K529", refuse_if(over[2], what=over[0], count=over[1])
    t, own = traits_of(kernel), load_arch(s.device.archs[0] if kernel.arch in s.device.archs else kernel.arch)
    rows, keys = t.algorithm.tile
    blocks = 0 if t.forward else -(-p.seqlen_k // keys)
    many = max(p.batch, p.heads) >= GRID_END or blocks >= BLOCKS_END
    yield "K530", refuse_if(many, heads=p.heads, batch=p.batch, blocks=blocks)
    most = int(own.fact("shared_per_block_optin"))
    yield "K531", refuse_if(t.shared_bytes > most, need=t.shared_bytes, own=own.name, most=most)
    uneven = t.algorithm.seq_aligned and (p.seqlen_q % rows or p.seqlen_k % keys)
    yield "K532", refuse_if(uneven, rows=p.seqlen_q, keys=p.seqlen_k, tile=f"{rows} by {keys}")
    elsewhere = t.only_cc and capability(own) not in t.only_cc
    yield "K533", refuse_if(elsewhere, only=" and ".join(map(str, t.only_cc)), own=own.name)


def _products(m: Storage) -> Iterator[tuple[str, int, int]]:
    """The 32-bit products of a kernel: a name, the largest value, and the end of the range."""
    p, forward, wide = m.problem, m.traits.forward, UNSIGNED if m.traits.forward else SIGNED
    rows, keys = (m.rows, m.key_rows) if m.apart and not forward else (p.seqlen_q, p.seqlen_k)
    widths = {name: made.strides[-2] for name, made in m.scratch.items() if len(made.shape) > 1}
    for name in ("q", "k", "v", "do"):
        heads, (row, head) = m.shape(name)[1], m.dense_strides(name)
        if not (forward and name in ("q", "do")):
            yield f"rows of {name}", (keys if name in ("k", "v") else rows) * row, SIGNED
        if heads > 1 and name != "do":
            yield f"heads of {name}", (heads - 1) * head, wide
            yield f"a head of {name}", head, SIGNED
    if p.bias is not Bias.NONE:
        yield "rows of the bias", p.bias.shape(1, 1, rows, 1)[2] * widths.get("attn_bias", p.seqlen_k), wide
    if forward:
        yield "rows of all LSE", p.batch * p.heads * widths.get("logsumexp", 0), UNSIGNED
        yield "rows of O", 0 if m.apart else p.batch * rows, UNSIGNED
    else:
        yield "rows of dBias", rows * widths.get("grad_bias", 0), SIGNED
        yield "rows of gradients", max(rows, keys) * p.heads * max(m.hdims), SIGNED


CONDITIONS = conditions(NAME, together([f"K{number}" for number in range(520, 534)], _findings))
"""Conditions on the problem."""
