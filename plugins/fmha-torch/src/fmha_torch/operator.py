"""``torch.ops.fmha.attention``: fused attention by a CPU kernel of fmha in this process, with gradients and under ``torch.compile``.

Importing this module registers it. Each kernel's first call is judged in a child process, as ``fmha_cli.api.session`` says; later
calls launch on the tensors where they lie. Nothing falls back to another implementation: what no kernel serves raises.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from fmha_cli import api

Tensor = torch.Tensor
DECODE_ROWS = 16
"""Up to so many queries another kernel is the fastest one; a session prefers those that it has proven, so it gets its own."""

_OPTIONS = "str mask, float? scale, float softcap, int[]? starts, int[]? lengths, int[]? packed"
_TENSORS = "Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? sinks"
_LIBRARY = torch.library.Library("fmha", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "attention(Tensor q, Tensor k, Tensor v, Tensor? attn_mask=None, bool is_causal=False, *, float? scale=None, bool enable_gqa=False, "
    "int[]? window=None, float softcap=0.0, Tensor? sinks=None, int[]? key_starts=None, int[]? key_lengths=None, int[]? packed=None) -> Tensor"
)


@torch.library.impl(_LIBRARY, "attention", "CompositeImplicitAutograd")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: Sequence[int] | None = None,
    softcap: float = 0.0,
    sinks: Tensor | None = None,
    key_starts: Sequence[int] | None = None,
    key_lengths: Sequence[int] | None = None,
    packed: Sequence[int] | None = None,
) -> Tensor:
    """Attention as ``torch.nn.functional.scaled_dot_product_attention`` has it, and what our kernels do beyond that.

    Args:
        q: (batch, heads, seqlen_q, hdim), fp32, fp16 or bf16.
        k, v: (batch, kv_heads, seqlen_k, hdim) and (batch, kv_heads, seqlen_k, hdim_v), of q's type.
        attn_mask: broadcasts to (batch, heads, seqlen_q, seqlen_k): booleans, true = visible; or numbers of q's type, which are added.
        is_causal: query i sees keys up to i, as SDPA has it (the top-left triangle).
        scale: of q.k; 1/sqrt(hdim) if None.
        enable_gqa: heads may be a multiple of kv_heads.
        window: (left, right): query i sees keys from i + seqlen_k - seqlen_q - left to i + seqlen_k - seqlen_q + right; a negative
            bound is none. (-1, 0) is the bottom-right triangle.
        softcap: scores become softcap * tanh(score / softcap), before the mask is added; 0 is off.
        sinks: (heads,), logits that join the denominators.
        key_starts, key_lengths: of each sequence, the first row of k and v that is a key, and how many there are; the mask counts
            from there. No gradients.
        packed: lengths of sequences that lie behind each other in q and in k (batch 1); each sees itself alone.

    Returns:
        (batch, heads, seqlen_q, hdim_v) of q's type. A query without keys gets 0. Rows of one query lie together in memory.

    Raises:
        UsageError: arguments that contradict each other.
        UnsupportedError: no kernel serves this; ``why`` names the first reason.
    """
    if k.shape[1] != q.shape[1] and not enable_gqa:
        what = f"q has {q.shape[1]} heads, k has {k.shape[1]}"
        raise _refusal(what, "enable_gqa", "enable_gqa=True")
    if is_causal and window is not None:
        what, why = "is_causal=True beside a window", "is_causal counts from the first key, a window from the last"
        raise _refusal(what, "window", f"window=({window[0]}, 0) alone", why)
    if window is not None and len(window) != 2:
        raise _refusal(f"window={list(window)}", "window", "window=(left, right)")
    mask = "causal-tl" if is_causal else "none" if window is None else f"window:{window[0]},{window[1]}"
    bias = None if attn_mask is None else _bias(attn_mask, q, k.shape[2])
    o: Tensor = _forward(q, k, v, bias, sinks, mask, scale, softcap, key_starts, key_lengths, packed)[0]
    return o


def _bias(mask: Tensor, q: Tensor, keys: int) -> Tensor:
    """The mask as numbers of q's type with four axes, the last one of all keys."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    if mask.dtype != q.dtype:
        help = f"attn_mask.to(torch.{str(q.dtype).removeprefix('torch.')}), or booleans"
        raise _refusal(f"attn_mask is {mask.dtype}, q is {q.dtype}", "attn_mask", help)
    four = mask[(None,) * (4 - mask.dim())]
    return four.expand(-1, -1, -1, keys) if four.shape[3] == 1 != keys else four


@torch.library.custom_op(
    "fmha::attention_forward", mutates_args=(), schema=f"({_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor)"
)
def _forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, sinks: Tensor | None, *options: Any
) -> tuple[Tensor, Tensor]:
    """O, and the LSE that the backward pass reads: (batch, heads, seqlen_q), fp32."""
    if (not k.shape[2] and sinks is None) or not q.numel():
        o, lse = _empty(q, k, v)
        return o.zero_(), lse.fill_(-torch.inf)
    done = _call(q, k, v, bias, sinks, options, lse=True)
    o, lse = (done["o"], done["lse"]) if options[5] is None else (done["o"][None], done["lse"][None])
    return o.transpose(1, 2), lse


@_forward.register_fake
def _empty(q: Tensor, k: Tensor, v: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    batch, heads, rows, _ = q.shape
    o = q.new_empty(batch, rows, heads, v.shape[3]).transpose(1, 2)
    return o, q.new_empty(batch, heads, rows, dtype=torch.float32)


@torch.library.custom_op(
    "fmha::attention_backward",
    mutates_args=(),
    schema=f"({_TENSORS}, Tensor o, Tensor lse, Tensor do, bool dbias, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    dbias: bool,
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dQ, dK, dV and dbias (without elements unless asked for), each of its tensor's shape and type."""
    grads = _grads(q, k, v, bias, sinks, o, lse, do, dbias)
    if not k.shape[2] or not q.numel():
        dq, dk, dv, db = grads
        return dq.zero_(), dk.zero_(), dv.zero_(), db.zero_()
    o, do = o.transpose(1, 2), do.transpose(1, 2)
    if options[5] is not None:
        o, do, lse = o[0], do[0], lse[0]
    more = {"saved": (_dense(o), lse), "do": _dense(do), "dbias": dbias}
    done = _call(q, k, v, bias, sinks, options, **more)
    dq, dk, dv = ((done[n] if options[5] is None else done[n][None]) for n in ("dq", "dk", "dv"))
    return dq, dk, dv, done["dbias"] if dbias else grads[3]


@_backward.register_fake
def _grads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    dbias: bool,
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = bias.shape if dbias and bias is not None else (0,)
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), q.new_empty(shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:5], *output)
    ctx.options = inputs[5:]
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, do: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, bias, sinks, o, lse = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    dq, dk, dv, dbias = _backward(q, k, v, bias, sinks, o, lse, do, wanted[3], *ctx.options)
    dsinks = None
    if wanted[4]:  # a sink is a key with the value 0: its weight times -(dO . O)
        weights = torch.exp(sinks.float()[:, None] - lse)
        dsinks = -(weights * (do.float() * o.float()).sum(-1)).sum((0, 2)).to(sinks.dtype)
    return dq, dk, dv, dbias if wanted[3] else None, dsinks, *(None for _ in ctx.options)


_forward.register_autograd(_differentiate, setup_context=_keep)


def _call(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, sinks: Tensor | None, options: tuple[Any, ...], **more: Any
) -> dict[str, Tensor]:
    mask, scale, softcap, starts, lengths, packed = options
    flags = {"mask": mask, "scale": scale, "softcap": softcap or None, "layout": "bhsd:bshd", **more}
    if starts is not None or lengths is not None:
        rows = k.shape[2]
        starts = [0] * k.shape[0] if starts is None else starts
        lengths = [rows - start for start in starts] if lengths is None else lengths
        flags |= {"kv_cache": "linear", "cache_leftpad": tuple(starts), "cache_seqlens": tuple(lengths)}
    if packed is not None:
        q, k, v = _only(q, "q"), _only(k, "k"), _only(v, "v")
        flags["seqlens_q"] = tuple(packed)
    if bias is not None:
        flags["bias"] = _dense(bias)
    if sinks is not None:
        flags["sink_logits"] = _dense(sinks.float())
    session = kept_session(os.getpid(), torch.get_num_threads(), q.shape[-2] <= DECODE_ROWS)
    try:
        return session(_dense(q), _dense(k), _dense(v), **flags)
    except api.FmhaError as fault:
        raise _whole(fault) from None


def _refusal(what: str, where: str, help: str, why: str | None = None) -> api.FmhaError:
    return _whole(api.UsageError(what, code="E043", where=where, why=why, help=help))


def _whole(fault: api.FmhaError) -> api.FmhaError:
    """The error with its cause and the remedy in its traceback, which shows the fault alone."""
    fault.add_note(fault.render())
    return fault


def _only(tensor: Tensor, name: str) -> Tensor:
    """The one sequence of a batch."""
    if tensor.shape[0] != 1:
        what = f"packed sequences, and {name} has a batch of {tensor.shape[0]}"
        raise _refusal(what, "packed", "lay all sequences behind each other, batch 1")
    return tensor[0]


def _dense(tensor: Tensor) -> Tensor:
    """The tensor itself, or a copy if its rows are not dense; without its history."""
    tensor = tensor.detach().resolve_neg()
    if tensor.stride(-1) == 1 and min(tensor.stride()) > 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


@lru_cache(maxsize=8)
def kept_session(process: int, threads: int, few_rows: bool) -> api.AttentionSession:
    """The session of this process for so many threads. A forked child must not speak through its parent's channel."""
    return api.session(backend="cpu", in_process=True, threads=threads)
