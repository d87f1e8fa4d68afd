"""Matrix products that Triton's compiler turns into tcgen05: one by plain Triton, and one of two blocks by Gluon."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    cluster,
    fence_async_shared,
    mbarrier,
    tcgen05_mma,
    tma,
)


@triton.jit
def plain(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    """c (rows, columns) = a (rows, K) b (K, columns); blocks of M by N."""
    columns = tl.num_programs(1) * N
    m, n, k = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, BK)
    sums = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :])
        right = tl.load(b + (start + k)[:, None] * columns + n[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(c + m[:, None] * columns + n[None, :], sums)


@gluon.jit
def pair(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):  # type: ignore[no-untyped-def]
    """One product by two blocks: rows of A and D are theirs by halves, columns of B too."""
    of_a: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    of_b: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    shared_a: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=[[1, 0]])
    shared_b: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=[[0, 1]])
    of_sums: gl.constexpr = TensorMemoryLayout([128, N], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    m, k = gl.arange(0, M, layout=gl.SliceLayout(1, of_a)), gl.arange(0, K, layout=gl.SliceLayout(0, of_a))
    row, n = gl.arange(0, K, layout=gl.SliceLayout(1, of_b)), gl.arange(0, N, layout=gl.SliceLayout(0, of_b))
    left = gl.allocate_shared_memory(gl.float16, [M, K], shared_a, gl.load(a + m[:, None] * K + k[None, :]))
    right = gl.allocate_shared_memory(gl.float16, [K, N], shared_b, gl.load(b + row[:, None] * N + n[None, :]))
    sums = allocate_tensor_memory(gl.float32, [M, N], of_sums)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    fence_async_shared(cluster=True)
    cluster.barrier()
    tcgen05_mma(left, right, sums, use_acc=False, multicast=True, mbarriers=[done])
    mbarrier.wait(done, 0)
    cluster.barrier()
    mbarrier.invalidate(done)
    out = sums.load()
    of_c: gl.constexpr = out.type.layout
    cm, cn = gl.arange(0, M, layout=gl.SliceLayout(1, of_c)), gl.arange(0, N, layout=gl.SliceLayout(0, of_c))
    gl.store(c + cm[:, None] * N + cn[None, :], out)


@gluon.jit
def pair_of_copies(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):  # type: ignore[no-untyped-def]
    """The same product, whose operands bulk copies bring; the mbarrier of the first block counts those of both."""
    of_sums: gl.constexpr = TensorMemoryLayout([128, N], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    left = gl.allocate_shared_memory(gl.float16, [M, K], a.layout)
    right = gl.allocate_shared_memory(gl.float16, [K, N], b.layout)
    sums = allocate_tensor_memory(gl.float32, [M, N], of_sums)
    full = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared(cluster=True)
    cluster.barrier()
    mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [0, 0], full, left)
    tma.async_load(b, [0, 0], full, right)
    mbarrier.wait(full, 0)
    tcgen05_mma(left, right, sums, use_acc=False, multicast=True, mbarriers=[done])
    mbarrier.wait(done, 0)
    cluster.barrier()
    mbarrier.invalidate(done)
    mbarrier.invalidate(full)
    out = sums.load()
    of_c: gl.constexpr = out.type.layout
    cm, cn = gl.arange(0, M, layout=gl.SliceLayout(1, of_c)), gl.arange(0, N, layout=gl.SliceLayout(0, of_c))
    gl.store(c + cm[:, None] * N + cn[None, :], out)


def _text(source: Any, blocks: int) -> str:
    made = triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4, "num_ctas": blocks})
    return str(made.asm["ptx"])


def text_of_plain(type_: str, m: int, n: int, k: int, blocks: int = 1) -> str:
    """PTX for sm_100a; ``blocks``: of a cluster, which together make an (m, n) block of D."""
    types = {"a": f"*{type_}", "b": f"*{type_}", "c": "*fp32", "K": "i32", "M": "constexpr", "N": "constexpr", "BK": "constexpr"}  # fmt: skip
    return _text(ASTSource(fn=plain, signature=types, constexprs={"M": m, "N": n, "BK": k}), blocks)


def text_of_pair(m: int, n: int, k: int) -> str:
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "M": "constexpr", "N": "constexpr", "K": "constexpr"}
    return _text(GluonASTSource(fn=pair, signature=types, constexprs={"M": m, "N": n, "K": k}), 2)


def text_of_copies(m: int, n: int, k: int) -> str:
    layouts = [gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=[basis]) for basis in ([1, 0], [0, 1])]
    types = {"a": f"tensordesc<fp16[{m}, {k}],{layouts[0]!r}>", "b": f"tensordesc<fp16[{k}, {n}],{layouts[1]!r}>", "c": "*fp32", "M": "constexpr", "N": "constexpr", "K": "constexpr"}  # fmt: skip
    return _text(GluonASTSource(fn=pair_of_copies, signature=types, constexprs={"M": m, "N": n, "K": k}), 2)
