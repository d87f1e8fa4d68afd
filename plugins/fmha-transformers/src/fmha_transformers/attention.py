"""The attention function of ``attn_implementation="fmha"``: what a model of transformers hands over, as a call of the operator.

No call falls back to another implementation. What cannot be served raises, with the reason and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from fmha_torch.operator import attention

from fmha_cli import api, plugin
from fmha_transformers.masks import FlagMask, numbers

Tensor = torch.Tensor
RECORD = "FMHA_TRANSFORMERS_RECORD"
"""The variable that names the folder of a recording."""

_ELSEWHERE = 'attn_implementation="eager"'
_CHANGING = {
    "indices": "sparse attention: each query names its keys",
    "block_indices": "sparse attention: each query names its blocks of keys",
    "sinks": "sinks in a form of this model's own",
    "read_index": "continuous batching has a paged cache of its own",
}
"""Arguments of some models that change the result, and their meaning."""


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer.

    Args:
        query: (batch, heads, seqlen_q, hdim); key, value: (batch, kv_heads, seqlen_k, hdim), (batch, kv_heads, seqlen_k, hdim_v).
        attention_mask: of ``fmha_transformers.masks.mask_of``, or a caller's own with four axes; None: causal if the layer is.
        scaling: None is 1/sqrt(hdim).
        position_bias: added to the scores, beside the mask.
        s_aux: (heads,), logits of the sinks.
        sliding_window: the mask has it already.

    Returns:
        (batch, seqlen_q, heads, hdim_v), and no weights.

    Raises:
        UsageError, UnsupportedError: what cannot be served, and why.
    """
    tensors = {"q": query, "k": key, "v": value}
    try:
        _refuse(dropout, others)
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        k, v, flags = _masked(tensors, attention_mask, position_bias, causal=bool(causal), window=sliding_window)
        if s_aux is not None:
            flags["sinks"] = s_aux
        flags |= {"scale": scaling, "softcap": softcap or 0.0}
        o = attention(query, k, v, enable_gqa=True, **flags)
    except api.FmhaError as fault:
        if RECORD in os.environ:
            _recorder(os.environ[RECORD]).refuse(type(module).__name__, fault.in_one_line)
        raise
    if RECORD in os.environ:
        _recorder(os.environ[RECORD]).record(_problem(query, k, v, flags))
    return o.transpose(1, 2), None


def _refuse(dropout: float, others: Mapping[str, Any]) -> None:
    """Raises UnsupportedError: arguments that no kernel here takes."""
    if dropout:
        why = "transformers draws its dropout from PyTorch's generator, whose numbers no kernel has"
        raise _refusal(
            f"dropout {dropout}", "dropout", why, "model.train(False), or attention_dropout=0 in the configuration"
        )
    if others.get("output_attentions"):
        why = "a fused kernel keeps no weights"
        raise _refusal("output_attentions=True", "output_attentions", why, _ELSEWHERE)
    for name, meaning in _CHANGING.items():
        if others.get(name) is not None:
            raise _refusal(f"the model passes {name}", name, meaning, _ELSEWHERE)


def _refusal(what: str, where: str, why: str, help: str) -> api.FmhaError:
    fault = api.UnsupportedError(what, code="E043", where=where, why=why, help=help)
    fault.add_note(fault.render())
    return fault


def _masked(
    tensors: Mapping[str, Tensor], mask: Tensor | None, bias: Tensor | None, *, causal: bool, window: int | None
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """K and V as far as they are seen, and the flags of the mask and the bias.

    Raises:
        UnsupportedError: a mask of another form, or none where its meaning is open.
    """
    q, k, v = tensors.values()
    rows, keys = q.shape[2], k.shape[2]
    if mask is None:
        if rows == 1 or not causal:
            return k, v, _added(bias, None, q)
        if rows != keys or (window is not None and window < keys):
            what = f"no mask for {rows} queries and {keys} keys" + (f" in a window of {window}" if window else "")
            why = "the layer is causal, and only a mask says where its queries stand"
            raise _refusal(what, "attention_mask", why, "pass attention_mask")
        return k, v, {"is_causal": True, **_added(bias, None, q)}
    if isinstance(mask, FlagMask) and mask.ranges.keys == keys and mask.shape[2] == rows:
        ranges = mask.ranges
        trained = torch.is_grad_enabled() and any(x.requires_grad for x in (*tensors.values(),))
        cached = "key_starts" in ranges.flags
        if not (cached and trained) and (bias is None or ranges.alike):
            seen = slice(ranges.first, ranges.end)
            bias = None if bias is None else bias[..., seen] if bias.shape[-1] != 1 else bias
            return k[:, :, seen], v[:, :, seen], {**ranges.flags, **_added(bias, None, q)}
        return k, v, _added(bias, numbers(ranges.visible(), q.dtype), q)
    if mask.device.type == "meta" or mask.dim() != 4 or mask.shape[-1] not in (1, keys):
        what = f"a mask of shape {tuple(mask.shape)} for {rows} queries and {keys} keys"
        why = "it is no mask of this implementation, or a part of one"
        raise _refusal(what, "attention_mask", why, f"a mask (batch, 1, seqlen_q, seqlen_k), or {_ELSEWHERE}")
    return k, v, _added(bias, mask, q)


def _added(bias: Tensor | None, mask: Tensor | None, q: Tensor) -> dict[str, Any]:
    """A bias and a mask as the one tensor that the operator adds; empty without any."""
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(q.dtype)
    if bias is None:
        return {} if mask is None else {"attn_mask": mask}
    bias = bias.to(q.dtype)
    if mask is None:
        return {"attn_mask": bias}
    return {"attn_mask": bias + (numbers(mask, q.dtype) if mask.dtype == torch.bool else mask)}


@lru_cache(maxsize=4)
def _recorder(folder: str) -> plugin.WorkloadRecorder:
    return plugin.WorkloadRecorder(folder)


def _problem(q: Tensor, k: Tensor, v: Tensor, flags: Mapping[str, Any]) -> api.Problem:
    """The problem that a call of the operator is."""
    mask = flags.get("attn_mask")
    shape = () if mask is None else tuple(mask.shape)
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    plain = {n: tuple(x) if isinstance(x, list) else x for n, x in flags.items() if n not in ("attn_mask", "sinks")}
    more = (("trained", trained), ("sinks", flags.get("sinks") is not None), *sorted(plain.items()))
    return _stated(tuple(q.shape), tuple(k.shape), v.shape[3], str(q.dtype), shape, more)


@lru_cache(maxsize=4096)
def _stated(
    q: tuple[int, ...], k: tuple[int, ...], hdim_v: int, dtype: str, bias: tuple[int, ...], more: tuple[Any, ...]
) -> api.Problem:
    given = dict(more)
    window, packed, starts = given.get("window"), given.get("packed"), given.get("key_starts")
    flags: dict[str, Any] = {"batch": q[0], "seqlen": q[2], "seqlen_k": k[2]}
    if packed is not None:
        flags = {"seqlens_q": packed}
    if starts is not None:
        flags |= {
            "kv_cache": "linear",
            "cache_leftpad": starts,
            "cache_seqlens": given["key_lengths"],
            "seqlen_k": None,
        }
    if bias:
        letters = (letter if n > 1 else "1" for letter, n in zip("bhs", bias[:3], strict=True))
        flags["bias"] = f"elementwise:{''.join(letters)}s"
    return api.Problem.of(
        heads=q[1],
        kv_heads=k[1],
        hdim=q[3],
        hdim_v=hdim_v,
        dtype={"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}[dtype],
        mask="causal-tl" if given.get("is_causal") else None if window is None else f"window:{window[0]},{window[1]}",
        scale=given["scale"],
        softcap=given["softcap"] or None,
        sink_logits="filled" if given["sinks"] else None,
        direction="fwd+bwd" if given["trained"] else None,
        **flags,
    )
