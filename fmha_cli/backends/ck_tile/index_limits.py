"""K328-K330: 32-bit strides and offsets of the kernels, and the grid that HIP can launch.

Kernel arguments hold strides as ``ck_tile::index_t`` (``int32_t``). Offsets of a sequence and a head are added in
64 bits, offsets inside one (sequence, head) view in 32 bits. A buffer resource spans at most 4 GiB. Source:
``include/ck_tile/ops/fmha/kernel/*.hpp`` ``MakeKargs`` and ``operator()``, ``core/arch/amd_buffer_addressing.hpp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.ck_tile.situation import CkSituation
from fmha_cli.backends.gpu.arithmetic import GRID_END
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Layout, QScale
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import Need
from fmha_cli.domain.tensors import page_count, shapes_of

INDEX_END = 1 << 31
BUFFER_END = 1 << 32
MX = (DType.MXFP8, DType.MXFP4)


def wide_strides(problem: Problem) -> Iterator[tuple[str, int]]:
    """(tensor, elements) of each stride that does not fit in 32 bits. No kernel reads MX tensors."""
    return ((name, stride) for name, stride in _stride_lengths(problem) if stride >= INDEX_END)


def _stride_lengths(p: Problem) -> Iterator[tuple[str, int]]:
    if p.dtype in MX or p.qscale is QScale.MX:
        return
    shapes = shapes_of(p)
    for name, tensor in shapes.items():
        outer = 2 if tensor.shape[0] == 1 else 1  # an axis of length 1 has no stride
        yield name, prod(tensor.shape[outer:])
    if p.direction.backward and p.kv_heads != p.heads:  # written for every query head
        yield "dk", prod(shapes["k"].shape[1:]) * p.heads // p.kv_heads


def long_views(problem: Problem) -> Iterator[tuple[str, int]]:
    """(tensor, elements) of each (sequence, head) view that exceeds 32-bit offsets or 4 GiB."""
    for name, elements, bits in _view_sizes(problem):
        if elements >= INDEX_END or elements * bits // 8 >= BUFFER_END:
            yield name, elements


def _view_sizes(p: Problem) -> Iterator[tuple[str, int, int]]:
    rows, keys = max(p.query_lengths(), default=0), max(p.key_lengths(), default=0)
    held = p.kv_cache.page if p.paged else keys
    heads, kv_heads = (1, 1) if p.layout is Layout.BHSD else (p.heads, p.kv_heads)
    kv_heads = p.kv_heads if p.paged else kv_heads
    yield "q", rows * heads * p.hdim, p.dtype.bits
    yield "k", held * kv_heads * p.hdim, p.dtype.bits
    yield "v", held * kv_heads * p.hdim_v, p.dtype.bits
    yield "o", rows * (1 if p.layout_out is Layout.BHSD else p.heads) * p.hdim_v, p.dtype_out.bits
    if p.bias.value != "none":
        yield "bias", rows * keys, p.dtype.bias.bits


def _strides(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    found = next(wide_strides(s.problem), None) or _scratch(s, kernel)
    if found is None:
        return None
    text = f"a stride of {found[0]} would be {found[1]} elements, kernel arguments hold less than 2^31"
    return Refusal(text, "a smaller --batch, shorter sequences, or fewer --splits")


def _scratch(s: CkSituation, kernel: KernelSpec) -> tuple[str, int] | None:
    """The workspace with the largest stride and that stride, if it does not fit in 32 bits."""
    p, name, stride = s.problem, "", 0
    if kernel.family is Family.FWD_SPLITKV:
        name, stride = "o_acc", p.heads * s.splits.count * s.rows * p.hdim_v
    elif kernel.signature.deterministic is Need.YES:
        name, stride = "dq_acc", (1 if s.group else p.batch) * p.heads * s.rows * p.hdim
    return (name, stride) if stride >= INDEX_END else None


def _views(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    found = next(long_views(s.problem), None) or _pool(s, kernel)
    if found is None:
        return None
    if found[0] == "cache":
        text = f"the page pool spans {found[1]} elements, and the kernel multiplies page by stride in 32 bits"
        return Refusal(text, "a larger page, or shorter caches")
    text = f"one sequence and head of {found[0]} spans {found[1]} elements: beyond 32-bit offsets or 4 GiB"
    strided = s.problem.layout is Layout.BSHD and found[0] != "bias"
    return Refusal(text, "--layout bhsd" if strided else "shorter sequences")


def _pool(s: CkSituation, kernel: KernelSpec) -> tuple[str, int] | None:
    """The page pool of a batch prefill, if the last page's offset does not fit in 32 bits."""
    p = s.problem
    if kernel.family is not Family.BATCH_PREFILL or not p.paged:
        return None
    last = (page_count(p) - 1) * p.kv_cache.page * p.kv_heads * max(p.hdim, p.hdim_v)
    return ("cache", last) if last >= INDEX_END else None


def grid_of(s: CkSituation, kernel: KernelSpec, *, merged: bool) -> tuple[int, int, int]:
    """Blocks of a main kernel (``GridSize`` of its class); ``merged`` is the result of :func:`merges_heads`."""
    p, a = s.problem, algorithm_of(kernel)
    if kernel.family is Family.BWD_DQ_DK_DV:
        return 1 if a.max_seq_q else -(-s.max_keys // a.tile[1]), p.heads, p.batch
    columns = -(-p.hdim_v // a.tile[3])
    if kernel.family is Family.FWD_SPLITKV:
        heads, rows = (p.kv_heads, p.heads // p.kv_heads) if merged else (p.heads, s.max_rows)
        return -(-rows // a.tile[0]) * columns * s.splits.count, heads, p.batch
    tiles = -(-s.max_rows // a.tile[0]) * columns
    if kernel.family is Family.FWD:
        return p.heads, tiles, p.batch
    return (p.heads, p.batch, tiles) if kernel.signature.mode.value == "group" else (tiles, p.heads, p.batch)


def merges_heads(s: CkSituation, kernel: KernelSpec) -> bool:
    """Whether a split-KV kernel treats the heads of a group as rows of one head (``kMergeNumHeadGroupsSeqLenQ``).

    ``run_instance`` does so for head dim 128 without bias and mask when there is one query row.
    """
    if kernel.family is not Family.FWD_SPLITKV:
        return False
    signature = kernel.signature
    plain = signature.hdim == 128 and signature.bias.value == "none" and signature.mask.value == "none"
    return plain and s.max_rows == 1 and s.problem.kv_heads < s.problem.heads


def _grid(s: CkSituation, kernel: KernelSpec) -> Found:
    x, y, z = grid_of(s, kernel, merged=False)
    return refuse_if(max(y, z) >= GRID_END or x >= INDEX_END, x=x, y=y, z=z)


WIDTHS = conditions(
    NAME,
    {
        "K328": _strides,
        "K329": _views,
        "K330": _grid,
    },
)
