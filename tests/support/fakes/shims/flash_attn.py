"""As much of the package ``flash_attn`` as its tests call, computed by ``fmha_cli.api.attention`` on CPU tensors of PyTorch.

Every function has the arguments and the outputs of ``flash_attn.flash_attn_interface`` (FlashAttention 2). What is not upstream's:

- No tensor leaves the CPU, where every kernel is deterministic.
- S_dmask holds P = exp(s - LSE), from the LSE that the kernel returned, with a minus where the dropout stream ``fmha`` drops. It is
  normalised already.
- The dropout seed comes from PyTorch's generator.
- An error of usage is a RuntimeError, as upstream's are.
- Where upstream rotates queries by other positions than the product (``_positions_are_those_of_the_product``), the shim rotates Q and
  the new keys, and the product appends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from fmha_cli import api
from fmha_cli.oracle.dropout import fmha_stream

REGISTRY = api.build_registry()

Lengths = tuple[int, ...] | None


def call(q: Any, k: Any, v: Any, **options: Any) -> dict[str, torch.Tensor]:
    """The outputs by name, as tensors of PyTorch.

    Raises:
        RuntimeError: what the product refuses.
    """
    given = [x.detach() if isinstance(x, torch.Tensor) else x for x in (q, k, v)]
    try:
        done = api.attention(*given, backend="cpu", layout="bshd", check=False, threads=1, registry=REGISTRY, **options)
    except (api.UsageError, api.UnsupportedError) as fault:
        raise RuntimeError(f"{fault.code} {fault} {fault.why or ''} {fault.help or ''}") from fault
    return {name: _tensor(array) for name, array in done.outputs.items()}


def _tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def mask_of(causal: bool, window: Sequence[Any]) -> str:
    """``--mask`` of FlashAttention's arguments: bottom-right aligned, a negative bound means no bound, and causal hides
    every key to the right.
    """
    left, right = (int(bound) for bound in window)
    if causal:
        right = 0
    if left < 0 and right < 0:
        return "none"
    return f"window:{max(left, -1)},{max(right, -1)}"


def options_of(
    causal: bool, window: Sequence[Any], softcap: float, slopes: Any, scale: float | None, splits: int = 0
) -> dict[str, Any]:
    """Flags of the arguments that all functions share."""
    flags: dict[str, Any] = {"mask": mask_of(causal, window)}
    if softcap:
        flags["softcap"] = softcap
    if slopes is not None:
        flags["alibi_slopes"] = slopes
    if scale is not None:
        flags["scale"] = scale
    if splits:
        flags["splits"] = splits
    return flags


class Attention(torch.autograd.Function):
    """O and LSE with the gradients of the product's backward kernels."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, flags: dict[str, Any]) -> Any:
        out = call(q, k, v, lse=True, **flags)
        ctx.save_for_backward(q, k, v)
        ctx.flags = flags
        ctx.mark_non_differentiable(out["lse"])
        return out["o"], out["lse"]

    @staticmethod
    def backward(ctx: Any, do: Any, dlse: Any) -> Any:
        q, k, v = ctx.saved_tensors
        out = call(q, k, v, do=do.detach(), direction="fwd+bwd", **ctx.flags)
        return out["dq"], out["dk"], out["dv"], None


def _lengths(cu: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(n) for n in cu.diff())


def _attention(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float,
    probabilities: bool,
    flags: dict[str, Any],
    lengths: tuple[Lengths, Lengths] = (None, None),
) -> Any:
    rows, keys = lengths
    if rows is not None:
        flags |= {"seqlens_q": rows}
        if "kv_cache" not in flags:
            flags |= {"seqlens_k": keys}
    if dropout_p:
        flags |= {"dropout": dropout_p, "seed": int(torch.randint(0, 2**31, ()))}
    o, lse = Attention.apply(q, k, v, flags)
    if not probabilities:
        return o
    return o, lse, _signed_probabilities(q, k, lse, flags) if dropout_p else None


def _signed_probabilities(q: Any, k: Any, lse: Any, flags: dict[str, Any]) -> torch.Tensor:
    """(batch, heads, longest seqlen_q, longest seqlen_k) in fp32; 0 where a sequence has no such row or key."""
    rows, keys = flags.get("seqlens_q"), flags.get("seqlens_k")
    packed = rows is not None
    if rows is None or keys is None:
        rows, keys = (q.shape[1],) * q.shape[0], (k.shape[1],) * k.shape[0]
    heads, hdim = q.shape[-2:]
    found = torch.zeros(len(rows), heads, max(rows), max(keys))
    at_q = at_k = 0
    for b, (m, n) in enumerate(zip(rows, keys, strict=True)):
        qs, ks = (q[at_q : at_q + m], k[at_k : at_k + n]) if packed else (q[b], k[b])
        own = lse[:, at_q : at_q + m] if packed else lse[b]
        at_q, at_k = at_q + m, at_k + n
        ks = ks.repeat_interleave(heads // ks.shape[1], dim=1)
        scores = torch.einsum("thd,shd->hts", qs.float(), ks.float()) * flags.get("scale", hdim**-0.5)
        i, j = torch.arange(m)[:, None], torch.arange(n)[None]
        if "alibi_slopes" in flags:
            slopes = flags["alibi_slopes"].expand(len(rows), heads)[b]
            scores -= slopes[:, None, None] * (i + n - m - j).abs()
        p = torch.exp(scores - own[..., None])
        found[b, :, :m, :n] = torch.where(_kept(b, heads, m, n, flags), p, -p)
    return found


def _kept(b: int, heads: int, m: int, n: int, flags: dict[str, Any]) -> torch.Tensor:
    problem = api.Problem.of(
        batch=b + 1, heads=heads, seqlen=m, seqlen_k=n, hdim=32, dropout=flags["dropout"], seed=flags["seed"]
    )
    h, i = (x.reshape(-1) for x in np.indices((heads, m)))
    return torch.from_numpy(fmha_stream(problem, b, h, i, 0, n).reshape(heads, m, n))


def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Sequence[Any] = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    flags = options_of(causal, window_size, softcap, alibi_slopes, softmax_scale)
    return _attention(q, k, v, dropout_p, return_attn_probs, flags)


def flash_attn_kvpacked_func(q: Any, kv: Any, *args: Any, **options: Any) -> Any:
    return flash_attn_func(q, *kv.unbind(-3), *args, **options)


def flash_attn_qkvpacked_func(qkv: Any, *args: Any, **options: Any) -> Any:
    return flash_attn_func(*qkv.unbind(-3), *args, **options)


def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Sequence[Any] = (-1, -1),
    softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:  # fmt: skip
    flags = options_of(causal, window_size, softcap, alibi_slopes, softmax_scale)
    rows, keys = _lengths(cu_seqlens_q), _lengths(cu_seqlens_k)
    if block_table is not None:
        flags |= {"kv_cache": f"paged:{k.shape[1]}", "block_table": block_table, "cache_seqlens": keys}
    return _attention(q, k, v, dropout_p, return_attn_probs, flags, (rows, keys))


def flash_attn_varlen_kvpacked_func(q: Any, kv: Any, *args: Any, **options: Any) -> Any:
    return flash_attn_varlen_func(q, *kv.unbind(-3), *args, **options)


def flash_attn_varlen_qkvpacked_func(qkv: Any, cu_seqlens: Any, max_seqlen: int, *args: Any, **options: Any) -> Any:
    return flash_attn_varlen_func(*qkv.unbind(-3), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **options)


def flash_attn_with_kvcache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, rotary_cos: Any = None, rotary_sin: Any = None,
    cache_seqlens: Any = None, cache_batch_idx: Any = None, cache_leftpad: Any = None, block_table: Any = None,
    softmax_scale: float | None = None, causal: bool = False, window_size: Sequence[Any] = (-1, -1), softcap: float = 0.0,
    rotary_interleaved: bool = True, alibi_slopes: Any = None, num_splits: int = 0, return_softmax_lse: bool = False,
) -> Any:  # fmt: skip
    """Appended keys are written into k_cache and v_cache. ``cache_seqlens`` counts rows from the start, left padding included."""
    flags = options_of(causal, window_size, softcap, alibi_slopes, softmax_scale, num_splits)
    ends = k_cache.shape[1] if cache_seqlens is None else cache_seqlens
    lengths = [int(n) for n in torch.as_tensor(ends).expand(q.shape[0])]
    if cache_leftpad is not None:
        pads = [int(n) for n in cache_leftpad]
        lengths = [n - pad for n, pad in zip(lengths, pads, strict=True)]
        flags["cache_leftpad"] = pads
    flags |= {"kv_cache": "linear" if block_table is None else f"paged:{k_cache.shape[1]}", "cache_seqlens": lengths}
    if block_table is not None:
        flags["block_table"] = block_table
    if cache_batch_idx is not None:
        flags["cache_batch_idx"] = [int(n) for n in cache_batch_idx]
    if k is not None:
        flags |= {"k_new": k, "v_new": v}
    if rotary_cos is not None and not _positions_are_those_of_the_product(q, k, causal, window_size):
        rows = torch.as_tensor(ends).expand(q.shape[0])
        turning = {"cos": rotary_cos, "sin": rotary_sin, "interleaved": rotary_interleaved, "seqlen_offsets": rows}
        still = not causal and all(int(n) < 0 for n in window_size)
        q = _turned_alike(q, **turning) if still else apply_rotary_emb(q, **turning)
        flags["k_new"] = apply_rotary_emb(k, **turning)
    elif rotary_cos is not None:
        form = "interleaved" if rotary_interleaved else "half"
        tables = {"rotary_cos": rotary_cos.float(), "rotary_sin": rotary_sin.float()}
        flags |= {"rotary": f"{2 * rotary_cos.shape[1]}:{form}", **tables}
    out = call(q, k_cache, v_cache, lse=return_softmax_lse, **flags)
    if k is not None:
        k_cache.copy_(out["k"])
        v_cache.copy_(out["v"])
    return (out["o"], out["lse"]) if return_softmax_lse else out["o"]


def _positions_are_those_of_the_product(q: Any, k: Any, causal: bool, window: Sequence[Any]) -> bool:
    """Upstream's query i is at cache_seqlen + i, or without a mask at cache_seqlen; the product's at seqlen_k - seqlen_q + i."""
    moves = causal or any(int(n) >= 0 for n in window)
    return bool(q.shape[1] == k.shape[1] and (moves or q.shape[1] == 1))


def _turned_alike(q: Any, **turning: Any) -> torch.Tensor:
    b, s, heads, hdim = q.shape
    return apply_rotary_emb(q.reshape(b, 1, s * heads, hdim), **turning).reshape(b, s, heads, hdim)


def apply_rotary_emb(x: Any, cos: Any, sin: Any, interleaved: bool = False, seqlen_offsets: Any = 0) -> torch.Tensor:
    """The rotation of x (batch, s, heads, d): row n of sequence b by row n + seqlen_offsets[b] of the tables, in single precision."""
    half = cos.shape[1]
    at = torch.as_tensor(seqlen_offsets).reshape(-1, 1) + torch.arange(x.shape[1])
    c, s = (table[at.long()].float()[:, :, None].expand(*x.shape[:3], half) for table in (cos, sin))
    turned, rest = x[..., : 2 * half].float(), x[..., 2 * half :]
    first, second = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    parts = first * c - second * s, first * s + second * c
    both = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    return torch.cat([both.to(x.dtype), rest], -1)


def stand_in_modules(bert_padding: ModuleType | None = None) -> dict[str, ModuleType]:
    """The modules that the tests import, by name; ``flash_attn.bert_padding`` is the checkout's own."""
    package, interface, layers, rotary = (
        ModuleType(name)
        for name in ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn.layers", "flash_attn.layers.rotary")
    )
    for function in (
        flash_attn_func,
        flash_attn_kvpacked_func,
        flash_attn_qkvpacked_func,
        flash_attn_varlen_func,
        flash_attn_varlen_kvpacked_func,
        flash_attn_varlen_qkvpacked_func,
        flash_attn_with_kvcache,
    ):
        setattr(package, function.__name__, function)
    vars(interface).update(_get_block_size_n=None, USE_TRITON_ROCM=False)
    vars(rotary).update(apply_rotary_emb=apply_rotary_emb)
    found = {module.__name__: module for module in (package, interface, layers, rotary)}
    return found if bert_padding is None else {**found, "flash_attn.bert_padding": bert_padding}
