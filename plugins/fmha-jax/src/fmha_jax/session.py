"""The session: ``jax.nn.dot_product_attention`` or its gradient, compiled by XLA for the tensors of a problem."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from fmha_cli import plugin
from fmha_jax.kernels import PLAIN, Masking, Precision, way_of

BHSD = plugin.Layout.BHSD
jax.config.update("jax_platforms", "cpu")


def limit_threads(threads: int) -> None:
    """Give XLA's client this many threads. It reads their number when it is made, so another number needs a new client."""
    if os.environ.get("NPROC") != str(threads):
        os.environ["NPROC"] = str(threads)
        jax.extend.backend.clear_backends()


class JaxSession(plugin.LibrarySession):
    """One compiled function, or the forward and the backward one."""

    failures = (RuntimeError, ValueError)

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        limit_threads(threads)
        p, self.arrays = self.problem, plugin.HostArrays(self.problem, arena, tensors)
        names = [*"qkv", *(["bias"] if "bias" in self.arrays else [])]
        self.feeds = [self.arrays.given(name, p.layout if name in "qkv" else None) for name in names]
        self.extra = [plugin.visible_keys(p, p.cache_rows)] if way_of(self.plan.main).masking is Masking.TENSOR else []
        if p.direction.backward:
            wanted = [f"d{name}" for name in names if name != "bias" or p.dbias]
            self.feeds.append(self.arrays.given("do", p.layout_out))
            self.outputs = [self.arrays.taken(name, p.layout if name != "dbias" else None) for name in wanted]
            count = len(wanted)
            self.forward: Any = jax.jit(lambda *of: jax.vjp(lambda *by: self._attend(*by, *of[count:]), *of[:count])[1])
            self.pull = self.forward(*self._moved()[:-1], *self.extra)
            function: Any = jax.jit(lambda pull, do: pull(do))
            inputs: tuple[Any, ...] = (self.pull, self._moved()[-1])
        else:
            self.outputs = [self.arrays.taken("o", p.layout_out), *([self.arrays.taken("lse")] if p.lse else [])]
            function = jax.jit(lambda *of: jax.tree.leaves(self._attend(*of)))
            inputs = (*self._moved(), *self.extra)
        self.compiled = function.lower(*inputs).compile()

    def upload(self) -> None:
        """Record the forward pass of a backward one, which takes no part in its time."""
        if self.problem.direction.backward:
            self.arrays.before()
            self.pull = self.forward(*self._moved()[:-1], *self.extra)

    def run(self) -> None:
        moved = self._moved()
        inputs = (self.pull, moved[-1]) if self.problem.direction.backward else (*moved, *self.extra)
        for target, result in zip(self.outputs, self.compiled(*inputs), strict=True):
            np.copyto(target, np.asarray(result))

    def remarks(self) -> tuple[str, ...]:
        """What XLA made of the function, beside the copies."""
        text = self.compiled.as_text() or ""
        made = Counter(re.findall(r'= [^=]*? (dot|custom-call)\(|"kind":"(__\w+)"', text))
        parts = ", ".join(f"{count} {''.join(kind).strip('_')}" for kind, count in sorted(made.items()))
        copied = sum(
            array.nbytes for array, one in zip(self.feeds, self._moved(), strict=True) if not _shared(array, one)
        )
        own = sum(array.nbytes for array in self.outputs)
        said = f"JAX {jax.__version__}: XLA made {parts or 'no product'}; {own + copied:,} bytes are copied within the time"
        return (said, *super().remarks())

    def _moved(self) -> list[jax.Array]:
        """The inputs as JAX's arrays: the same memory where its address is a multiple of 64."""
        return [jax.device_put(array) for array in self.feeds]

    def _attend(self, q: Any, k: Any, v: Any, *more: Any) -> Any:
        """The function with its layouts and types; ``more`` is a bias and a mask, as far as there are any."""
        p, of, plain = self.problem, way_of(self.plan.main), PLAIN in plugin.mask_forms(self.problem)
        options: dict[str, Any] = {"scale": p.scale, "implementation": "xla", "return_residual": p.lse}
        if "bias" in self.arrays:
            options["bias"] = more[0]
        if of.masking is Masking.TENSOR:
            options["mask"] = more[-1]
        elif of.masking is Masking.WINDOW:
            far, sizes = p.seqlen_q + p.seqlen_k, (None, None) if plain else (p.mask.left, p.mask.right)
            options["local_window_size"] = tuple(far if n is None else n for n in sizes)
        else:
            options["is_causal"] = not plain
        kind = {Precision.F32: jnp.float32, Precision.BF16: jnp.bfloat16}[of.precision]
        rows = [(x.swapaxes(1, 2) if p.layout is BHSD else x).astype(kind) for x in (q, k, v)]
        found = jax.nn.dot_product_attention(*rows, **options)
        o, lse = found if p.lse else (found, None)
        o = (o.swapaxes(1, 2) if p.layout_out is BHSD else o).astype(q.dtype)
        return o if lse is None else (o, lse.swapaxes(1, 2))


def _shared(array: np.ndarray, moved: jax.Array) -> bool:
    return bool(moved.unsafe_buffer_pointer() == array.ctypes.data)
