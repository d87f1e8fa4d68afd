"""The session: one call of ``mx.fast.scaled_dot_product_attention``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

import mlx.core as mx
import numpy as np

from fmha_cli import plugin
from fmha_mlx.kernels import precision_of

BHSD, FORM = plugin.Layout.BHSD, plugin.MaskForm
KINDS = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def taken(array: np.ndarray) -> mx.array:
    """A copy as MLX's array; it does not know numpy's bfloat16."""
    if str(array.dtype) == "bfloat16":
        return mx.array(array.view(np.uint16)).view(mx.bfloat16)
    return mx.array(array)


class MlxSession(plugin.LibrarySession):
    """One call. MLX computes it on one thread."""

    failures = (RuntimeError, ValueError)

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        p, self.arrays, found = (
            self.problem,
            plugin.HostArrays(self.problem, arena, tensors),
            plugin.mask_forms(self.problem),
        )
        names = [*"qkv", *(name for name in ("bias", "sink_logits") if name in self.arrays)]
        self.feeds = {name: self.arrays.given(name, p.layout if name in "qkv" else None) for name in names}
        self.y, self.sees = self.arrays.taken("o", p.layout_out), mx.array(plugin.visible_keys(p, p.cache_rows))
        self.hides, self.causal = FORM.PLAIN not in found, FORM.BOTTOM_RIGHT in found and FORM.PLAIN not in found

    def run(self) -> None:
        p, kind = self.problem, KINDS[precision_of(self.plan.main).value]
        fed = {name: taken(array).astype(kind) for name, array in self.feeds.items()}
        q, k, v = (fed[name] if p.layout is BHSD else fed[name].swapaxes(1, 2) for name in "qkv")
        bias, mask = fed.get("bias"), "causal" if self.causal else self.sees if self.hides else None
        if bias is not None:
            mask = mx.where(self.sees, bias, mx.array(-np.inf, kind)) if self.hides else bias
        o = mx.fast.scaled_dot_product_attention(q, k, v, scale=p.scale, mask=mask, sinks=fed.get("sink_logits"))
        o = (o if p.layout_out is BHSD else o.swapaxes(1, 2)).astype(taken(self.y[:0]).dtype)
        np.copyto(self.y, np.array(o.view(mx.uint16)).view(self.y.dtype) if o.dtype == mx.bfloat16 else np.array(o))

    def remarks(self) -> tuple[str, ...]:
        """The copies, which MLX makes of all arrays."""
        copied = sum(array.nbytes for array in (*self.feeds.values(), self.y))
        said = f"MLX {version('mlx-cpu')} computes on one thread; {copied:,} bytes are copied within the time"
        return (said, *super().remarks())
