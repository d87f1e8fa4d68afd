"""Names, shapes, element types and roles of every tensor of a problem. No other place defines them.

Axes, with ``s`` rows of a sequence, ``d`` the head dim, and ``heads`` the tensor's own head count:

- batch mode: bhsd (batch, heads, s, d), bshd (batch, s, heads, d);
- group mode packs the sequences without gaps: bhsd (heads, total, d), bshd (total, heads, d);
- a linear cache is batch-shaped in group mode too. It has cache_rows rows: at least the largest left padding + cache_seqlen +
  append of a sequence. The keys of sequence b start at row leftpads()[b] of its item cache_item(b) of cache_batch;
- a paged cache is (pages, page, kv_heads, d) in both layouts; the block table is (batch, table_width);
- a given cache may be larger than its sequences need (``Problem.storage``); a filled one is not;
- where V is in K (``Problem.v_in_k``) v, v_new, v_descale and dv do not exist: V is the first hdim_v columns of k, with
  k's scales, appended keys are values too, and dk holds the sums of both;
- k_new and v_new (appended keys) are batch-shaped with ``append`` rows;
- lse is fp32 (batch, heads, seqlen_q) or, packed, (heads, total_q), in both layouts;
- rotary_cos and rotary_sin are fp32 (positions, dim / 2), row n for position n, of which the last one used is the last;
- bias is (batch, heads, S, K) with S and K the largest lengths, and 1 along the axes that its rank broadcasts, also in
  group mode, where row i and key j count inside the sequence and the rest is padding. Its type is ``DType.bias``;
- do has the shape and layout of o; a gradient has its tensor's shape, layout and element type;
- k and v of a cache have its own type (``--kv-dtype``), k_new and v_new that of q;
- q_scale and k_scale (MX) have the shape of q and k with ceil(d / 32) scales for d; v_scale that of v with ceil(s / 32) for s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import prod

from fmha_cli.domain.dtypes import MX_BLOCK, DType, Fp8Encoding, KvDType
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.features import Alibi, Bias, CacheKind, Layout, Mode, QScale
from fmha_cli.domain.problem import Problem

SCALE_BLOCK = 128
"""Rows that share one scale under ``--qscale block`` (ROCm/composable_kernel, ck_tile fmha ``BLOCKSCALE``)."""


ROTARY_TABLES = ("rotary_cos", "rotary_sin")


class Element(StrEnum):
    """Storage type of one element, each in its own bytes: fp4 has one code in the low half of a byte."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    FP8_E4M3_FNUZ = "fp8_e4m3_fnuz"
    FP8_E5M2_FNUZ = "fp8_e5m2_fnuz"
    FP4_E2M1 = "fp4_e2m1"
    E8M0 = "e8m0"
    """A scale of MX types: a power of two, or NaN."""
    INT8 = "int8"
    INT32 = "int32"

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return _BYTES.get(self, 1)

    @classmethod
    def of(cls, dtype: DType, encoding: Fp8Encoding = Fp8Encoding.OCP) -> Element:
        """The storage type of a dtype's elements, block scales apart."""
        return _MX.get(dtype) or _coded(dtype.value, encoding)

    @classmethod
    def of_keys(cls, problem: Problem) -> Element:
        """The storage type of K and V."""
        if problem.kv_dtype is KvDType.SAME:
            return cls.of(problem.dtype, problem.fp8_encoding)
        return _coded(problem.kv_dtype.value, problem.fp8_encoding)


_BYTES = {Element.FP32: 4, Element.FP16: 2, Element.BF16: 2, Element.INT32: 4}
_MX = {DType.MXFP8: Element.FP8_E4M3, DType.MXFP4: Element.FP4_E2M1}


def _coded(name: str, encoding: Fp8Encoding) -> Element:
    return Element(f"{name}_fnuz" if encoding is Fp8Encoding.FNUZ and name.startswith("fp8") else name)


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
    """Number of pages of the pool. A filled one has those in use, and one that no sequence uses."""
    return problem.storage.pages or sum(pages_of(n, problem.kv_cache.page) for n in problem.key_lengths()) + 1


def table_width(problem: Problem) -> int:
    """Places for each sequence in the block table of a paged cache."""
    return max(1, problem.storage.table, pages_of(problem.seqlen_k, problem.kv_cache.page))


def unused_bytes(problem: Problem) -> int:
    """Bytes of a given cache that no sequence uses."""
    p, stored = problem, problem.storage
    linear = p.cache_batch * p.cache_rows if stored.rows or p.cache_batch_idx is not None else 0
    rows = page_count(p) * p.kv_cache.page if stored.pages else linear
    row = p.kv_heads * (p.hdim + (0 if p.v_in_k else p.hdim_v)) * p.kv_bits // 8
    return max(0, rows - p.held_keys) * row


def shapes_of(problem: Problem) -> dict[str, TensorShape]:
    """Every tensor that a run of ``problem`` reads or writes, by its project-wide name.

    Names: q k v, block_table, k_new v_new, rotary_cos rotary_sin, bias, alibi_slopes, sink_logits, q_descale k_descale v_descale,
    q_scale k_scale v_scale, o, lse, do, dq dk dv dbias. Standard ALiBi slopes are a tensor too (the caller fills them).

    Raises:
        UnsupportedError: T001, a form of an MX problem that would need new scales: an MX output, gradients, appended keys
            or a cache of another type.
    """
    return dict(_tensors(problem))


def _tensors(p: Problem) -> Iterator[tuple[str, TensorShape]]:
    _check_mx(p)
    element, out, held = (
        Element.of(p.dtype, p.fp8_encoding),
        Element.of(p.dtype_out, p.fp8_encoding),
        Element.of_keys(p),
    )
    q, k, v = _rows(p, p.heads, p.hdim, p.layout), _keys(p, p.hdim), _keys(p, p.hdim_v)
    o = _rows(p, p.heads, p.hdim_v, p.layout_out)
    cache = Role.INOUT if p.append else Role.INPUT
    yield "q", TensorShape(q, element)
    yield "k", TensorShape(k, held, cache)
    if not p.v_in_k:
        yield "v", TensorShape(v, held, cache)
    if p.paged:
        yield "block_table", TensorShape((p.batch, table_width(p)), Element.INT32)
    if p.append:
        yield "k_new", TensorShape((p.batch, *_axes((p.kv_heads, p.append, p.hdim), p.layout)), element)
        if not p.v_in_k:
            yield "v_new", TensorShape((p.batch, *_axes((p.kv_heads, p.append, p.hdim_v), p.layout)), element)
    if p.rotary_cos:
        yield from ((name, TensorShape((p.positions, p.rotary.dim // 2), Element.FP32)) for name in ROTARY_TABLES)
    bias = bias_shape(p)
    if bias is not None:
        yield "bias", TensorShape(bias, Element.of(p.dtype.bias))
    if p.alibi is not Alibi.NONE:
        rank = (p.batch, p.heads) if p.alibi is Alibi.BATCH_HEADS else (p.heads,)
        yield "alibi_slopes", TensorShape(rank, Element.FP32)
    if p.sink_logits:
        yield "sink_logits", TensorShape((p.heads,), Element.FP32)
    yield from ((name, TensorShape(shape, Element.FP32)) for name, shape in _descales(p))
    yield from ((name, TensorShape(shape, Element.E8M0)) for name, shape in _mx_scales(p))
    result = Role.OUTPUT if p.direction.forward else Role.INPUT
    yield "o", TensorShape(o, out, result)
    if p.lse or p.direction.backward:
        yield "lse", TensorShape(lse_shape(p), Element.FP32, result)
    if p.direction.backward:
        yield "do", TensorShape(o, element)
        yield "dq", TensorShape(q, element, Role.OUTPUT)
        yield "dk", TensorShape(k, element, Role.OUTPUT)
        if not p.v_in_k:
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
    return None if p.bias is Bias.NONE else p.bias.shape(p.batch, p.heads, p.seqlen_q, p.seqlen_k)


def _rows(p: Problem, heads: int, dim: int, layout: Layout) -> tuple[int, ...]:
    if p.mode is Mode.GROUP:
        return _axes((heads, sum(p.query_lengths()), dim), layout)
    return p.batch, *_axes((heads, p.seqlen_q, dim), layout)


def _keys(p: Problem, dim: int) -> tuple[int, ...]:
    if p.paged:
        return page_count(p), p.kv_cache.page, p.kv_heads, dim
    if p.mode is Mode.GROUP and p.kv_cache.kind is CacheKind.NONE:
        return _axes((p.kv_heads, sum(p.key_lengths()), dim), p.layout)
    return p.cache_batch, *_axes((p.kv_heads, p.cache_rows, dim), p.layout)


def _axes(sizes: tuple[int, int, int], layout: Layout) -> tuple[int, int, int]:
    """The sizes (heads, rows, dim) in the order of the layout's axes."""
    heads, rows, dim = sizes
    return sizes if layout is Layout.BHSD else (rows, heads, dim)


def _descales(p: Problem) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Shapes of the scales by granularity: one number, (batch, kv_heads), one per SCALE_BLOCK rows, or one per page."""
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
        if p.kv_dtype is KvDType.SAME or p.dtype.is_fp8:  # else only the cache is quantised
            yield "q_descale", q
        yield "k_descale", kv
        if not p.v_in_k:
            yield "v_descale", kv


def _check_mx(p: Problem) -> None:
    """Refuse MX problems that have no tensor form. Raises as ``shapes_of``."""
    facts = {
        f"an output in {p.dtype_out.value}": p.dtype_out.is_mx,
        f"--direction {p.direction.value}": p.dtype.is_mx and p.direction.backward,
        f"--mla-rope {p.mla_rope}": p.dtype.is_mx and p.v_in_k,  # V's blocks are along keys, K's along columns
        f"--append {p.append}": p.dtype.is_mx and p.append > 0,
        f"--kv-dtype {p.kv_dtype.value}": p.dtype.is_mx and p.kv_dtype is not KvDType.SAME,
    }
    for what, wrong in facts.items():
        if wrong:
            why = "a kernel would have to find new block scales, and no rule says how"
            raise UnsupportedError(f"{what} has no tensor form with MX types", code="T001", where="--dtype", why=why)


def blocks_before(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Number of the first MX block of keys of each packed sequence, and their total. Every sequence starts a block."""
    return offsets(tuple(-(-n // MX_BLOCK) for n in lengths))


def _mx_scales(p: Problem) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Shapes of the block scales: those of q and k have one for every MX_BLOCK elements of a row, those of v one for every
    MX_BLOCK rows of an element. Blocks of v count the rows of a linear cache, of a page, or of a packed sequence."""
    if not p.dtype.is_mx:
        return
    dim = -(-p.hdim // MX_BLOCK)
    yield "q_scale", _rows(p, p.heads, dim, p.layout)
    yield "k_scale", _keys(p, dim)
    if p.paged:
        shape: tuple[int, ...] = (page_count(p), -(-p.kv_cache.page // MX_BLOCK), p.kv_heads, p.hdim_v)
    elif p.mode is Mode.GROUP and p.kv_cache.kind is CacheKind.NONE:
        shape = _axes((p.kv_heads, blocks_before(p.key_lengths())[-1], p.hdim_v), p.layout)
    else:
        shape = (p.cache_batch, *_axes((p.kv_heads, -(-p.cache_rows // MX_BLOCK), p.hdim_v), p.layout))
    yield "v_scale", shape
