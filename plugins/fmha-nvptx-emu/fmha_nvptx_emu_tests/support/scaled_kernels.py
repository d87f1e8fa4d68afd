"""A product with block scales that Triton's compiler turns into tcgen05.mma.block_scale."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def scaled(a, b, sa, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OF_A: tl.constexpr, OF_B: tl.constexpr, TYPE_A: tl.constexpr, TYPE_B: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # fmt: skip
    """c (M, N) of a (M, K) and b (N, K), with a scale for BLOCK elements; OF: elements of a byte."""
    m, n = tl.arange(0, M), tl.arange(0, N)
    ka, kb, block = tl.arange(0, K // OF_A), tl.arange(0, K // OF_B), tl.arange(0, K // BLOCK)
    left = tl.load(a + m[:, None] * (K // OF_A) + ka[None, :])
    right = tl.load(b + n[None, :] * (K // OF_B) + kb[:, None])
    scales_a = tl.load(sa + m[:, None] * (K // BLOCK) + block[None, :])
    scales_b = tl.load(sb + n[:, None] * (K // BLOCK) + block[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot_scaled(left, scales_a, TYPE_A, right, scales_b, TYPE_B))


def text_of_scaled(type_a: str, type_b: str, block: int, scales: str, m: int, n: int, k: int) -> str:
    """PTX for sm_100a. ``scales``: u8 (powers of two) or fp8e4nv."""
    types = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "e2m1": "*u8"}
    signature = {"a": types[type_a], "b": types[type_b], "sa": "*" + scales, "sb": "*" + scales, "c": "*fp32"}
    values: dict[str, Any] = {"M": m, "N": n, "K": k, "OF_A": 1 + (type_a == "e2m1"), "OF_B": 1 + (type_b == "e2m1"), "TYPE_A": type_a, "TYPE_B": type_b, "BLOCK": block}  # fmt: skip
    source = ASTSource(fn=scaled, signature={**signature, **dict.fromkeys(values, "constexpr")}, constexprs=values)
    return str(triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4}).asm["ptx"])
