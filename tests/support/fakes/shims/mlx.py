"""``mlx.core.fast.scaled_dot_product_attention``, computed by ``fmha_cli.api.attention`` on the CPU kernels.

Arguments and outputs are MLX's: (batch, heads, length, hdim), a mask that is None, "causal" (bottom-right aligned), or an array that
broadcasts to (batch, heads, queries, keys); a boolean one is true where a key is visible, another one is added in Q's type.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import mlx.core as mx
import numpy as np

from fmha_cli import api

REGISTRY = api.build_registry()
CALLS = [0]
"""How often the product computed."""


def to_numpy(x: Any) -> Any:
    """The array, without a change of type; numpy itself knows no bfloat16."""
    return np.array(x.view(mx.uint16)).view(ml_dtypes.bfloat16) if x.dtype == mx.bfloat16 else np.array(x)


def to_mlx(x: Any) -> Any:
    return mx.array(x.view(np.uint16)).view(mx.bfloat16) if x.dtype == ml_dtypes.bfloat16 else mx.array(x)


def bias_of(mask: Any, q: Any, keys: int) -> Any:
    """The mask with four axes of which the last holds every key; all others stay as they are."""
    mask = mask if mask.dtype == mx.bool_ else mask.astype(q.dtype)
    array = to_numpy(mask)
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    return np.broadcast_to(array, (*array.shape[:3], keys)) if array.shape[3] == 1 else array


def scaled_dot_product_attention(q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None) -> Any:
    """O, differentiable in Q, K and V.

    Raises:
        ValueError: what the product refuses; and sinks of another type than Q's, which MLX refuses and the product takes.
    """
    options: dict[str, Any] = {"scale": float(scale)}
    if sinks is not None:
        if sinks.dtype != q.dtype:
            raise ValueError("sinks of another type")
        options["sink_logits"] = to_numpy(sinks.astype(mx.float32))
    if isinstance(mask, str):
        options["mask"] = mask
    elif mask is not None:
        options["bias"] = bias_of(mask, q, k.shape[2])

    @mx.custom_function
    def attention(q: Any, k: Any, v: Any) -> Any:
        return _call((q, k, v), options)["o"]

    @attention.vjp
    def gradients(tensors: Any, do: Any, output: Any) -> Any:
        found = _call(tensors, {**options, "do": to_numpy(do), "direction": "fwd+bwd"})
        return found["dq"], found["dk"], found["dv"]

    return attention(q, k, v)


def _call(tensors: Any, options: dict[str, Any]) -> dict[str, Any]:
    CALLS[0] += 1
    given = [to_numpy(x) for x in tensors]
    try:
        done = api.attention(*given, backend="cpu", check=False, threads=1, registry=REGISTRY, **options)
    except (api.UsageError, api.UnsupportedError) as fault:
        raise ValueError(f"{fault.code} {fault} {fault.why or ''}") from fault
    return {name: to_mlx(np.ascontiguousarray(array)) for name, array in done.outputs.items()}
