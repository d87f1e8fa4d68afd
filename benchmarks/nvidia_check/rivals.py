"""PyTorch's attention operators that points are timed against, by name: its FlashAttention, memory-efficient and cuDNN
ones.

Tensors have the layout bshd: q (B, M, H, D), k (B, N, H, D), v (B, N, H, Dv), bias (B, H, M, N) with strides of 0 where
it is broadcast, LSE (B, H, M).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol


@dataclass(frozen=True)
class Inputs:
    """The inputs of an operator. ``bias`` is None without one; ``causal`` masks are anchored at the top left."""

    q: Any
    k: Any
    v: Any
    bias: Any
    do: Any
    causal: bool
    scale: float

    @property
    def sizes(self) -> tuple[int, int]:
        return self.q.shape[1], self.k.shape[1]


class Rival(Protocol):
    """One of PyTorch's operators, forward and backward, without dropout."""

    def operators(self) -> tuple[Any, Any]:
        """Both operators.

        Raises:
            ImportError: PyTorch is not installed. AttributeError: this PyTorch lacks the operators.
        """
        ...

    def forward(self, x: Inputs, lse: bool) -> Callable[[], Sequence[Any]]:
        """A forward call. Its result begins with O and LSE."""
        ...

    def backward(self, x: Inputs, saved: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        """A backward call on the result of a forward call. Its result: dQ, dK, dV, and dBias where there is a bias."""
        ...


def _aten(*names: str) -> tuple[Any, ...]:
    import torch

    return tuple(getattr(torch.ops.aten, name).default for name in names)


class Flash:
    """``_flash_attention_forward``: the FlashAttention-2 that PyTorch bundles."""

    def operators(self) -> tuple[Any, Any]:
        forward, backward = _aten("_flash_attention_forward", "_flash_attention_backward")
        return forward, backward

    def forward(self, x: Inputs, lse: bool) -> Callable[[], Sequence[Any]]:
        run = self.operators()[0]
        return lambda: run(x.q, x.k, x.v, None, None, *x.sizes, 0.0, x.causal, False, scale=x.scale)

    def backward(self, x: Inputs, saved: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        run, (o, lse, state, unused) = self.operators()[1], saved[:4]
        given = (x.do, x.q, x.k, x.v, o, lse, None, None, *x.sizes, 0.0, x.causal, state, unused)
        return lambda: run(*given, scale=x.scale)


class Flash3(Flash):
    """The same operators after ``activate_flash_attention_impl("FA3")``: the FlashAttention-3 that is installed.

    Each call activates it and then restores FlashAttention-2, which would otherwise be FlashAttention-3 too.
    """

    def operators(self) -> tuple[Any, Any]:
        from torch.nn.attention import activate_flash_attention_impl, restore_flash_attention_impl

        activate_flash_attention_impl("FA3")
        restore_flash_attention_impl()
        return super().operators()

    def forward(self, x: Inputs, lse: bool) -> Callable[[], Sequence[Any]]:
        return _activated(super().forward(x, lse))

    def backward(self, x: Inputs, saved: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        return _activated(super().backward(x, saved))


def _activated(run: Callable[[], Sequence[Any]]) -> Callable[[], Sequence[Any]]:
    from torch.nn.attention import activate_flash_attention_impl, restore_flash_attention_impl

    def call() -> Sequence[Any]:
        activate_flash_attention_impl("FA3")
        try:
            return run()
        finally:
            restore_flash_attention_impl()

    return call


class Efficient:
    """``_efficient_attention_forward``: the kernels that the backend ``mem_efficient`` has."""

    def operators(self) -> tuple[Any, Any]:
        forward, backward = _aten("_efficient_attention_forward", "_efficient_attention_backward")
        return forward, backward

    def forward(self, x: Inputs, lse: bool) -> Callable[[], Sequence[Any]]:
        run, mask = self.operators()[0], int(x.causal)
        return lambda: run(x.q, x.k, x.v, x.bias, None, None, None, None, 0.0, mask, lse, scale=x.scale)

    def backward(self, x: Inputs, saved: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        run, (o, lse, seed, offset) = self.operators()[1], saved[:4]
        given = (x.do, x.q, x.k, x.v, x.bias, o, None, None, *x.sizes, lse, 0.0, seed, offset, int(x.causal))
        return lambda: run(*given, x.bias is not None, scale=x.scale)


class Cudnn:
    """``_scaled_dot_product_cudnn_attention``: the kernels of the closed cuDNN library."""

    def operators(self) -> tuple[Any, Any]:
        name = "_scaled_dot_product_cudnn_attention"
        forward, backward = _aten(name, f"{name}_backward")
        return forward, backward

    def forward(self, x: Inputs, lse: bool) -> Callable[[], Sequence[Any]]:
        run = self.operators()[0]
        q, k, v = (tensor.transpose(1, 2) for tensor in (x.q, x.k, x.v))

        def call() -> Sequence[Any]:
            o, stats, *rest = run(q, k, v, x.bias, lse, 0.0, x.causal, False, scale=x.scale)
            return o.transpose(1, 2), stats.reshape(q.shape[:3]) if lse else stats, *rest

        return call

    def backward(self, x: Inputs, saved: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        if x.bias is not None:
            raise NotImplementedError("the operator returns no gradient of a bias")
        run, (o, lse, starts_q, starts_k, rows, keys, seed, offset) = self.operators()[1], saved[:8]
        do, q, k, v, o = (tensor.transpose(1, 2) for tensor in (x.do, x.q, x.k, x.v, o))
        given = (do, q, k, v, o, lse[..., None], seed, offset, None, starts_q, starts_k, rows, keys, 0.0, x.causal)
        return lambda: [gradient.transpose(1, 2) for gradient in run(*given, scale=x.scale)]


RIVALS: Mapping[str, Rival] = MappingProxyType(
    {"flash": Flash(), "flash_3": Flash3(), "efficient": Efficient(), "cudnn": Cudnn()}
)
