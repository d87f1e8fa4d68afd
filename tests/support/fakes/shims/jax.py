"""JAX's attention functions, computed by ``fmha_cli.api.attention`` on the CPU kernels, under ``jit``, ``vmap`` and ``vjp``.

Arguments and outputs are those of ``jax.nn.dot_product_attention`` and of ``jax.experimental.pallas.ops.gpu``: (batch, length, heads,
hdim), masks aligned top-left. Lengths of padded sequences hide keys as a boolean mask does, and queries beyond theirs give 0.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fmha_cli import api

REGISTRY = api.build_registry()
CALLS = [0]
"""How often the product computed."""


def call(tensors: Any, **options: Any) -> Any:
    """The outputs by name."""
    CALLS[0] += 1
    given = [np.asarray(x) for x in tensors]
    done = api.attention(*given, backend="cpu", layout="bshd", check=False, threads=1, registry=REGISTRY, **options)
    return done.outputs


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: float | None = None,
    is_causal: bool = False, query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
    local_window_size: Any = None, implementation: str | None = None, return_residual: bool = False, of_jax: Any = None,
) -> Any:  # fmt: skip
    """JAX's function; with ``implementation=None`` it is ``of_jax``, which is the reference of its tests, if there is one."""
    if implementation is None and of_jax is not None:
        return of_jax(
            query, key, value, bias, mask, scale=scale, is_causal=is_causal, query_seq_lengths=query_seq_lengths,
            key_value_seq_lengths=key_value_seq_lengths, local_window_size=local_window_size, return_residual=return_residual,
        )  # fmt: skip
    four = [x.reshape((1,) * (4 - x.ndim) + x.shape) for x in (query, key, value)]
    q, k, v = four
    rows, keys = q.shape[1], k.shape[1]
    seen = None if mask is None else mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if key_value_seq_lengths is not None:
        inside = (jnp.arange(keys)[None] < key_value_seq_lengths[:, None])[:, None, None]
        seen = inside if seen is None else seen & inside
    if query_seq_lengths is not None:
        inside = (jnp.arange(rows)[None] < query_seq_lengths[:, None])[:, None, :, None]
        seen = inside if seen is None else seen & inside
    if bias is not None:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
    flags = {"scale": scale if scale is not None else q.shape[3] ** -0.5, "mask": _mask(is_causal, local_window_size)}
    o, lse = _attention(tuple(flags.items()), q, k, v, bias, seen)
    o, lse = o.reshape(query.shape), jnp.swapaxes(lse, 1, 2).reshape(query.shape[:-1])
    return (o, lse.astype(o.dtype)) if return_residual else o


def _mask(causal: bool, window: Any) -> str:
    if window is None:
        return "causal-tl" if causal else "none"
    left, right = (window, window) if isinstance(window, int) else window
    return f"window-tl:{left},{0 if causal else right}"


def _bias(bias: Any, seen: Any) -> Any:
    """One bias of both, -inf where a key is hidden; a boolean mask alone stays boolean."""
    if bias is None or seen is None:
        return seen if bias is None else bias
    return np.where(seen, bias, np.array(-np.inf, bias.dtype))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(flags: Any, q: Any, k: Any, v: Any, bias: Any, seen: Any) -> Any:
    def compute(q: Any, k: Any, v: Any, bias: Any, seen: Any) -> Any:
        given = _bias(bias, seen)
        out = call((q, k, v), lse=True, **dict(flags), **({} if given is None else {"bias": given}))
        return out["o"], out["lse"]

    b, s, h, _ = q.shape
    shapes = (jax.ShapeDtypeStruct(q.shape, q.dtype), jax.ShapeDtypeStruct((b, h, s), jnp.float32))
    return jax.pure_callback(compute, shapes, q, k, v, bias, seen, vmap_method="sequential")


def _forward(flags: Any, q: Any, k: Any, v: Any, bias: Any, seen: Any) -> Any:
    return _attention(flags, q, k, v, bias, seen), (q, k, v, bias, seen)


def _backward(flags: Any, tensors: Any, cotangents: Any) -> Any:
    def compute(q: Any, k: Any, v: Any, bias: Any, seen: Any, do: Any) -> Any:
        options: dict[str, Any] = {} if bias is None and seen is None else {"bias": _bias(bias, seen)}
        if bias is not None:
            options["dbias"] = True
        out = call((q, k, v), do=np.asarray(do), direction="fwd+bwd", **dict(flags), **options)
        found = tuple(out[name] for name in ("dq", "dk", "dv"))
        return found if bias is None else (*found, _summed(out["dbias"], bias.shape))

    differentiable = [x for x in tensors[:4] if x is not None]
    shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in differentiable)
    found = jax.pure_callback(compute, shapes, *tensors, cotangents[0], vmap_method="sequential")
    return (*found, *[None] * (5 - len(found)))


def _summed(gradient: Any, shape: Any) -> Any:
    """The gradient of a bias that a mask of more axes has expanded."""
    axes = tuple(axis for axis, n in enumerate(shape) if n == 1 and gradient.shape[axis] != 1)
    return gradient.astype(np.float32).sum(axes, keepdims=True).astype(gradient.dtype) if axes else gradient


_attention.defvjp(_forward, _backward)


def decode_attention(of_jax: Any) -> Any:
    """``jax.experimental.pallas.ops.gpu.decode_attention``: one query, keys start_idx to kv_seq_len - 1."""

    def gqa(
        q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: Any = None, **rest: Any
    ) -> Any:
        assert not rest["return_residuals"], "the kernel returns LSE, not a maximum and a sum"
        first, end = start_idx or 0, k.shape[1] if kv_seq_len is None else kv_seq_len
        flags = {} if sm_scale is None else {"scale": sm_scale}
        o = call((q[:, None], k, v), kv_cache="linear", cache_seqlens=end - first, cache_leftpad=first, **flags)["o"]
        return o[:, 0]

    def mqa(q: Any, k: Any, v: Any, **options: Any) -> Any:
        return gqa(q, k[:, :, None], v[:, :, None], **options)

    return SimpleNamespace(gqa=gqa, mqa=mqa, gqa_reference=of_jax.gqa_reference, mqa_reference=of_jax.mqa_reference)


def fused_attention(of_jax: Any) -> Any:
    """``jax.experimental.pallas.ops.gpu.attention``: scores are not scaled unless asked, and segments do not see each other."""

    def mha(
        q: Any, k: Any, v: Any, segment_ids: Any = None, sm_scale: float = 1.0, causal: bool = False, **rest: Any
    ) -> Any:
        seen = None if segment_ids is None else segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
        return dot_product_attention(q, k, v, mask=seen, scale=sm_scale, is_causal=causal, implementation="xla")

    return SimpleNamespace(mha=mha, mha_reference=of_jax.mha_reference)


def paged_attention(of_jax: Any) -> Any:
    """``jax.experimental.pallas.ops.gpu.paged_attention``: pages are (kv_heads, pages, page, hdim), scores are not scaled."""

    def attend(
        q: Any,
        k_pages: Any,
        v_pages: Any,
        block_tables: Any,
        lengths: Any,
        *,
        attn_logits_soft_cap: Any = None,
        **rest: Any,
    ) -> Any:
        pool = [np.moveaxis(np.asarray(x), 0, 2) for x in (k_pages, v_pages)]
        capped = {"softcap": attn_logits_soft_cap} if attn_logits_soft_cap else {}
        out = call(
            (q[:, None], *pool), kv_cache=f"paged:{pool[0].shape[1]}", cache_seqlens=[int(n) for n in lengths],
            block_table=np.asarray(block_tables), scale=1.0, splits=rest.get("k_splits", "auto"), **capped,
        )  # fmt: skip
        return jnp.asarray(out["o"][:, 0])

    return SimpleNamespace(paged_attention=attend, paged_attention_reference=of_jax.paged_attention_reference)
