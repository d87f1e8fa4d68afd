"""Names, shapes, element types and roles of every tensor of a problem. No other place defines them.

Axes, with ``s`` rows of a sequence, ``d`` the head dim, and ``heads`` the tensor's own head count:

- batch mode: bhsd (batch, heads, s, d), bshd (batch, s, heads, d);
- group mode packs the sequences without gaps: bhsd (heads, total, d), bshd (total, heads, d);
- a linear cache is batch-shaped in group mode too. It has cache_rows rows: the largest cache_seqlen + append after
  the largest left padding. The keys of sequence b start at row leftpads()[b];
- a paged cache is (pages, page, kv_heads, d) in both layouts;
- k_new and v_new (appended keys) are batch-shaped with ``append`` rows;
- lse is fp32 (batch, heads, seqlen_q) or, packed, (heads, total_q), in both layouts;
- bias is (1, 1, S, K), (1, heads, S, K) or (batch, heads, S, K) with S and K the largest lengths, also in
  group mode, where row i and key j count inside the sequence and the rest is padding. Its type is ``DType.bias``;
- do has the shape and layout of o; a gradient has its tensor's shape, layout and element type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import prod

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.features import Alibi, Bias, CacheKind, Layout, Mode, QScale
from fmha_cli.domain.problem import Problem

SCALE_BLOCK = 128
"""Rows that share one scale under ``--qscale block`` (ROCm/composable_kernel, ck_tile fmha ``BLOCKSCALE``)."""


class Element(StrEnum):
    """Storage type of one element."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    INT32 = "int32"

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return 4 if self is Element.INT32 else DType(self.value).bits // 8

    @classmethod
    def of(cls, dtype: DType) -> Element:
        """The storage type of a problem's dtype.

        Raises:
            UnsupportedError: T001, an MX type, whose block scales have no agreed tensor form in this tool.
        """
        if dtype.value not in cls._value2member_map_:
            raise UnsupportedError(
                f"--dtype {dtype.value} has no tensor form",
                code="T001",
                where="--dtype",
                why="MX block scales are not laid out",
            )
        return cls(dtype.value)


class Role(StrEnum):
    """The use of a tensor by a kernel. A cache that is appended to is ``INOUT``."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"


@dataclass(frozen=True)
class TensorShape:
    """One dense, C-contiguous tensor."""

    shape: tuple[int, ...]
    dtype: Element
    role: Role = Role.INPUT

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.nbytes


def offsets(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """First row of each packed sequence; the last element is the total (``cu_seqlens``)."""
    return tuple(accumulate(lengths, initial=0))


def pages_of(length: int, page: int) -> int:
    """Number of pages that hold ``length`` keys."""
    return -(-length // page)


def page_count(problem: Problem) -> int:
    """Number of pages of a filled paged cache: those in use, and one that no sequence uses."""
    return sum(pages_of(n, problem.kv_cache.page) for n in problem.key_lengths()) + 1


def shapes_of(problem: Problem) -> dict[str, TensorShape]:
    """Every tensor that a run of ``problem`` reads or writes, by its project-wide name.

    Names: q k v, block_table, k_new v_new, bias, alibi_slopes, sink_logits, q_descale k_descale v_descale,
    o, lse, do, dq dk dv dbias. Standard ALiBi slopes are a tensor too (the caller fills them).

    Raises:
        UnsupportedError: T001, an MX dtype or ``--qscale mx``.
    """
    return dict(_tensors(problem))


def _tensors(p: Problem) -> Iterator[tuple[str, TensorShape]]:
    element, out = Element.of(p.dtype), Element.of(p.dtype_out)
    q, k, v = _rows(p, p.heads, p.hdim, p.layout), _keys(p, p.hdim), _keys(p, p.hdim_v)
    o = _rows(p, p.heads, p.hdim_v, p.layout_out)
    cache = Role.INOUT if p.append else Role.INPUT
    yield "q", TensorShape(q, element)
    yield "k", TensorShape(k, element, cache)
    yield "v", TensorShape(v, element, cache)
    if p.paged:
        yield "block_table", TensorShape((p.batch, max(1, pages_of(p.seqlen_k, p.kv_cache.page))), Element.INT32)
    if p.append:
        yield "k_new", TensorShape((p.batch, *_axes((p.kv_heads, p.append, p.hdim), p.layout)), element)
        yield "v_new", TensorShape((p.batch, *_axes((p.kv_heads, p.append, p.hdim_v), p.layout)), element)
    bias = bias_shape(p)
    if bias is not None:
        yield "bias", TensorShape(bias, Element.of(p.dtype.bias))
    if p.alibi is not Alibi.NONE:
        rank = (p.batch, p.heads) if p.alibi is Alibi.BATCH_HEADS else (p.heads,)
        yield "alibi_slopes", TensorShape(rank, Element.FP32)
    if p.sink_logits:
        yield "sink_logits", TensorShape((p.heads,), Element.FP32)
    yield from ((name, TensorShape(shape, Element.FP32)) for name, shape in _descales(p))
    result = Role.OUTPUT if p.direction.forward else Role.INPUT
    yield "o", TensorShape(o, out, result)
    if p.lse or p.direction.backward:
        yield "lse", TensorShape(lse_shape(p), Element.FP32, result)
    if p.direction.backward:
        yield "do", TensorShape(o, element)
        yield "dq", TensorShape(q, element, Role.OUTPUT)
        yield "dk", TensorShape(k, element, Role.OUTPUT)
        yield "dv", TensorShape(v, element, Role.OUTPUT)
        if p.dbias and bias is not None:
            yield "dbias", TensorShape(bias, Element.of(p.dtype.bias), Role.OUTPUT)


def lse_shape(p: Problem) -> tuple[int, ...]:
    """(batch, heads, seqlen_q), or (heads, total_q) in group mode."""
    if p.mode is Mode.GROUP:
        return p.heads, sum(p.query_lengths())
    return p.batch, p.heads, p.seqlen_q


def bias_shape(p: Problem) -> tuple[int, ...] | None:
    """Shape of the elementwise bias, None without one."""
    planes = {Bias.R11SS: (1, 1), Bias.R1HSS: (1, p.heads), Bias.RBHSS: (p.batch, p.heads)}.get(p.bias)
    return None if planes is None else (*planes, p.seqlen_q, p.seqlen_k)


def _rows(p: Problem, heads: int, dim: int, layout: Layout) -> tuple[int, ...]:
    if p.mode is Mode.GROUP:
        return _axes((heads, sum(p.query_lengths()), dim), layout)
    return p.batch, *_axes((heads, p.seqlen_q, dim), layout)


def _keys(p: Problem, dim: int) -> tuple[int, ...]:
    if p.paged:
        return page_count(p), p.kv_cache.page, p.kv_heads, dim
    if p.mode is Mode.GROUP and p.kv_cache.kind is CacheKind.NONE:
        return _axes((p.kv_heads, sum(p.key_lengths()), dim), p.layout)
    return p.batch, *_axes((p.kv_heads, p.cache_rows, dim), p.layout)


def _axes(sizes: tuple[int, int, int], layout: Layout) -> tuple[int, int, int]:
    """The sizes (heads, rows, dim) in the order of the layout's axes."""
    heads, rows, dim = sizes
    return sizes if layout is Layout.BHSD else (rows, heads, dim)


def _descales(p: Problem) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Shapes of the scales by granularity: one number, (batch, kv_heads), one per SCALE_BLOCK rows, or one per page."""
    if p.qscale is QScale.MX:
        raise UnsupportedError(
            "--qscale mx has no tensor form", code="T001", where="--qscale", why="MX block scales are not laid out"
        )
    per_head = (p.batch, p.kv_heads)
    blocks_q, blocks_k = (-(-n // SCALE_BLOCK) for n in (p.seqlen_q, p.seqlen_k))
    forms: dict[QScale, tuple[tuple[int, ...], tuple[int, ...]]] = {
        QScale.TENSOR: ((1,), (1,)),
        QScale.HEAD: (per_head, per_head),
        QScale.BLOCK: ((p.batch, p.heads, blocks_q), (p.batch, p.kv_heads, blocks_k)),
        QScale.KV_BLOCK: ((1,), (page_count(p), p.kv_heads) if p.paged else (p.batch, p.kv_heads, blocks_k)),
    }
    if p.qscale in forms:
        q, kv = forms[p.qscale]
        yield from (("q_descale", q), ("k_descale", kv), ("v_descale", kv))
