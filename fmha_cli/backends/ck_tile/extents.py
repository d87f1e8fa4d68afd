"""Strides and view sizes of a problem's tensors that exceed the range of CK's kernels.

Kernel arguments hold strides as ``ck_tile::index_t`` (``int32_t``). Offsets of a sequence and a head are added in
64 bits, offsets inside one (sequence, head) view in 32 bits. A buffer resource spans at most 4 GiB. Source:
``include/ck_tile/ops/fmha/kernel/*.hpp`` ``MakeKargs`` and ``operator()``, ``core/arch/amd_buffer_addressing.hpp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Layout, QScale
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import shapes_of

INDEX_END = 1 << 31
BUFFER_END = 1 << 32
MX = (DType.MXFP8, DType.MXFP4)


def wide_strides(problem: Problem) -> Iterator[tuple[str, int]]:
    """(tensor, elements) of each stride that does not fit in 32 bits. No kernel reads MX tensors."""
    return ((name, stride) for name, stride in _strides(problem) if stride >= INDEX_END)


def _strides(p: Problem) -> Iterator[tuple[str, int]]:
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
    for name, elements, bits in _views(problem):
        if elements >= INDEX_END or elements * bits // 8 >= BUFFER_END:
            yield name, elements


def _views(p: Problem) -> Iterator[tuple[str, int, int]]:
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
