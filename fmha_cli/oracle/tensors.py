"""Tensors as numpy arrays: element types, rounding, and views of one sequence and head in any storage form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.domain.dtypes import MX_BLOCK, KvDType
from fmha_cli.domain.features import ROTARY_BASE, Layout, Mode, QScale, Rotary, RotaryStyle
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import ROTARY_TABLES, SCALE_BLOCK, Element, bias_shape, blocks_before, offsets

Array = npt.NDArray[Any]
F64 = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Inputs = Mapping[str, Array]
"""Tensors by their names in ``fmha_cli.domain.tensors``, in the problem's own layout and storage type."""

_NUMPY: Mapping[Element, npt.DTypeLike] = {
    Element.FP32: np.float32,
    Element.FP16: np.float16,
    Element.BF16: ml_dtypes.bfloat16,
    Element.FP8_E4M3: ml_dtypes.float8_e4m3fn,
    Element.FP8_E5M2: ml_dtypes.float8_e5m2,
    Element.FP8_E4M3_FNUZ: ml_dtypes.float8_e4m3fnuz,
    Element.FP8_E5M2_FNUZ: ml_dtypes.float8_e5m2fnuz,
    Element.FP4_E2M1: ml_dtypes.float4_e2m1fn,
    Element.E8M0: ml_dtypes.float8_e8m0fnu,
    Element.INT8: np.int8,
    Element.INT32: np.int32,
}


_ALONE, _SMALL, _ROWS = 1 << 18, 1 << 22, 16
"""Multiplications up to which OpenBLAS starts no threads (``interface/gemm.c``, GEMM_MULTITHREAD_THRESHOLD 4), up to which they gain little,
and the least height of a part."""


def product(a: F64, b: F64) -> F64:
    """a (R, d) @ b (d, n). A small one is made of parts for which OpenBLAS starts no threads, since on a busy machine these wait for each
    other: in a caller's process, 128 x 64 x 128 took 340 us of processor time, and 63 us in parts. The parts do not depend on the threads."""
    work = a.shape[0] * b.size
    if not _ALONE < work <= _SMALL or b.size * _ROWS > _ALONE:
        return a @ b
    out, rows = np.empty((a.shape[0], b.shape[1])), _ALONE // b.size
    for first in range(0, a.shape[0], rows):
        np.matmul(a[first : first + rows], b, out=out[first : first + rows])
    return out


def numpy_dtype(element: Element) -> np.dtype[Any]:
    """The numpy type of a storage type (bf16, fp8, fp4 and e8m0 from ``ml_dtypes``)."""
    return np.dtype(_NUMPY[element])


def largest(element: Element) -> float:
    """The largest finite number of a storage type."""
    if element is Element.INT8:
        return float(np.iinfo(np.int8).max)
    finfo: Any = ml_dtypes.finfo
    return float(finfo(numpy_dtype(element)).max)


def round_to(values: npt.ArrayLike, element: Element) -> Array:
    """Round to nearest even in a storage type. Overflow becomes inf; NaN in types without inf, the largest number in int8
    and fp4, which have neither. Other values that are not finite are 0 in int8."""
    if element is Element.INT8:
        with np.errstate(invalid="ignore"):
            whole: Array = np.nan_to_num(np.clip(np.rint(values), -128, 127)).astype(np.int8)
        return whole
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(numpy_dtype(element))


def quantise(values: F64, factor: F64, element: Element) -> Array:
    """Rows as a cache of a narrower type keeps them: divided by their de-quantisation factors in single precision, limited to
    the type's finite numbers, rounded to nearest even. NaN stays NaN (0 in int8).

    Args:
        factor: (rows, 1) or (1,).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scaled = values.astype(np.float32) / factor.astype(np.float32)
    return round_to(np.clip(scaled, -largest(element), largest(element)), element)


def rotate(
    x: npt.ArrayLike,
    positions: npt.ArrayLike,
    rotary: Rotary,
    base: float = ROTARY_BASE,
    tables: tuple[Array, Array] | None = None,
) -> F64:
    """``x`` (..., rows, d) with its first ``rotary.dim`` elements rotated by the rows' positions, float64.

    Pair t of a row at position n is rotated by the angle n * base^(-2t/dim), or multiplied by the numbers that the ``tables``
    of cosines and sines hold in row n.

    Source: Su et al., "RoFormer" (2021); the pairings are those of Dao-AILab/flash-attention
    ``flash_attn/layers/rotary.py`` (``interleaved`` = GPT-J, ``half`` = GPT-NeoX).
    """
    out = np.array(x, dtype=np.float64)
    dim = rotary.dim
    if not dim:
        return out
    if tables is None:
        angle = np.asarray(positions, dtype=np.float64)[:, None] * base ** (
            -np.arange(0, dim, 2, dtype=np.float64) / dim
        )
        cos, sin = np.cos(angle), np.sin(angle)
    else:
        cos, sin = (table[np.asarray(positions, np.int64)].astype(np.float64) for table in tables)
    half = rotary.style is RotaryStyle.HALF
    first, second = (slice(0, dim // 2), slice(dim // 2, dim)) if half else (slice(0, dim, 2), slice(1, dim, 2))
    a, b = out[..., first].copy(), out[..., second].copy()
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out


@dataclass(frozen=True)
class SequenceView:
    """One sequence of a problem; every method returns a dense 2-D (rows, d) view or copy in the storage type."""

    problem: Problem
    inputs: Inputs
    b: int

    @property
    def seqlen_q(self) -> int:
        return self.problem.query_lengths()[self.b]

    @property
    def seqlen_k(self) -> int:
        """Keys, appended ones included."""
        return self.problem.key_lengths()[self.b]

    @property
    def leftpad(self) -> int:
        """Row of a linear cache at which the keys start."""
        return self.problem.leftpads()[self.b]

    def rows(self, name: str, h: int) -> Array:
        """(seqlen_q, d) of q, q_scale, dq (layout) or o, do (layout_out); a view into the tensor."""
        p = self.problem
        return head_rows(self.inputs[name], p, p.layout_of(name), p.query_lengths(), self.b, h)

    def keys(self, name: str, g: int) -> Array:
        """(seqlen_k, d) of k or v for key/value head ``g``, without padding; appended keys come last, rotated and rounded."""
        if name == "v" and self.problem.v_in_k:
            return self.keys("k", g)[:, : self.problem.hdim_v]
        p, tensor = self.problem, self.inputs[name]
        if p.cache_seqlens is None:
            return head_rows(tensor, p, p.layout, p.key_lengths(), self.b, g)
        held = p.cache_seqlens[self.b]
        if p.paged:
            page, slot = self.slots(0, held)
            cached = tensor[page, slot, g]
        else:
            cached = batched_rows(tensor, p.layout, p.cache_item(self.b), g)[self.leftpad : self.leftpad + held]
        return np.concatenate([cached, self.appended(name, g)]) if p.append else cached

    def place(self, tensor: Array, first: int, end: int, values: Array | bool, g: int | slice = slice(None)) -> None:
        """Write ``values`` to keys first..end-1 of head ``g``, or of all heads, in a tensor of the cache's form."""
        p = self.problem
        if p.paged:
            page, slot = self.slots(first, end)
            tensor[page, slot, g] = values
        else:
            rows = slice(self.leftpad + first, self.leftpad + end)
            item = p.cache_item(self.b)
            tensor[(item, g, rows) if p.layout is Layout.BHSD else (item, rows, g)] = values

    def slots(self, first: int, end: int) -> tuple[Ints, Ints]:
        """(page, slot in the page) of keys first..end-1 of a paged cache."""
        j = np.arange(first, end, dtype=np.int64)
        page = self.problem.kv_cache.page
        return self.inputs["block_table"][self.b].astype(np.int64)[j // page], j % page

    def appended(self, name: str, g: int) -> Array:
        """(append, d): the new rows as the cache keeps them (keys rotated at leftpad + cache_seqlen + t, then rounded, and
        quantised where the cache has a type of its own)."""
        p = self.problem
        new = batched_rows(self.inputs[f"{name}_new"], p.layout, self.b, g)
        narrow, held = p.kv_dtype is not KvDType.SAME, Element.of_keys(p)
        if p.cache_seqlens is None or not (narrow or (name == "k" and p.rotary.dim)):
            return new
        index = p.cache_seqlens[self.b] + np.arange(p.append)
        rows = self._rotate_keys(new, index) if name == "k" else rotate(new, index, Rotary())
        return quantise(rows, self.descale(name, g, index), held) if narrow else round_to(rows, held)

    def queries(self, h: int, i: Ints) -> F64:
        """(rows, hdim) float64 of the chosen rows: de-quantised, and rotated when the problem rotates."""
        q = self.rows("q", h)[i].astype(np.float64)
        q *= self.descale("q", h, i) * self.block_scale("q", h, self.seqlen_q)[i, : q.shape[1]]
        return self._rotate_keys(q, self.seqlen_k - self.seqlen_q + i)

    def _rotate_keys(self, rows: Array, index: Ints) -> F64:
        """Rows (rows, hdim) rotated to the places of keys of these numbers."""
        p, names = self.problem, ROTARY_TABLES
        tables = (self.inputs[names[0]], self.inputs[names[1]]) if p.rotary_cos else None
        return rotate(rows, self.leftpad + index, p.rotary, p.rotary_base, tables)

    def keys64(self, name: str, g: int) -> F64:
        """(seqlen_k, d) float64 of k or v, de-quantised."""
        out = self.keys(name, g).astype(np.float64)
        if self.problem.qscale is not QScale.NONE:
            with np.errstate(invalid="ignore"):
                out *= self.descale(name, g, np.arange(self.seqlen_k))
                out *= self.block_scale(name, g, self.seqlen_k)[:, : out.shape[1]]
        return out

    def block_scale(self, name: str, head: int, rows: int) -> F64:
        """(rows, d or more) the MX scale of every element of q, k or v; (rows, 1) of ones for other types."""
        p = self.problem
        if not p.dtype.is_mx:
            return np.ones((1, 1)).repeat(rows, axis=0)
        if name == "v":
            blocks, index = self._value_blocks(head)
            return blocks[index]
        stored = self.rows(f"{name}_scale", head) if name == "q" else self.keys(f"{name}_scale", head)
        return stored.astype(np.float64).repeat(MX_BLOCK, axis=1)

    def _value_blocks(self, g: int) -> tuple[F64, Ints]:
        """Scales of V by block (blocks, hdim_v), and the block of every key."""
        p, scale = self.problem, self.inputs["v_scale"]
        j = np.arange(self.seqlen_k)
        if p.paged:
            page, slot = self.slots(0, self.seqlen_k)
            return scale[page, slot // MX_BLOCK, g].astype(np.float64), j
        if p.mode is Mode.GROUP and p.cache_seqlens is None:
            first, end = blocks_before(p.key_lengths())[self.b : self.b + 2]
            mine = scale[g, first:end] if p.layout is Layout.BHSD else scale[first:end, g]
            return mine.astype(np.float64), j // MX_BLOCK
        return batched_rows(scale, p.layout, p.cache_item(self.b), g).astype(np.float64), (self.leftpad + j) // MX_BLOCK

    def descale(self, name: str, head: int, index: Ints) -> F64:
        """(rows, 1), or (1,), factors of the rows ``index`` of q, k or v; 1 where the tensor has none."""
        p = self.problem
        name = "k" if name == "v" and p.v_in_k else name
        if f"{name}_descale" not in self.inputs:
            return np.ones(1)
        scale: F64 = self.inputs[f"{name}_descale"].astype(np.float64)
        if scale.size == 1:
            return scale.reshape(1)
        if p.qscale is QScale.HEAD:
            g = head * p.kv_heads // p.heads if name == "q" else head
            return np.atleast_1d(scale[self.b, g])
        if p.qscale is QScale.KV_BLOCK and p.paged:
            pages = self.inputs["block_table"][self.b].astype(np.int64)[index // p.kv_cache.page]
            factors: F64 = scale[pages, head]
        else:
            factors = scale[self.b, head][index // SCALE_BLOCK]
        return factors[:, None]

    def bias(self, h: int) -> Array | None:
        """(seqlen_q, seqlen_k) of the elementwise bias, None without one."""
        bias = self.inputs.get("bias")
        if bias is None:
            return None
        b, head = (self.b if bias.shape[0] > 1 else 0), (h if bias.shape[1] > 1 else 0)
        plane: Array = bias[b, head, : self.seqlen_q, : self.seqlen_k]
        return np.broadcast_to(plane, (self.seqlen_q, plane.shape[-1]))

    def slopes(self) -> F64 | None:
        """(heads,) ALiBi slopes, None without ALiBi."""
        slopes = self.inputs.get("alibi_slopes")
        if slopes is None:
            return None
        return np.asarray(slopes if slopes.ndim == 1 else slopes[self.b], dtype=np.float64)

    def sinks(self) -> F64 | None:
        """(heads,) learned sink logits, None without them."""
        sinks = self.inputs.get("sink_logits")
        return None if sinks is None else sinks.astype(np.float64)


def value_tensors(problem: Problem, inputs: Inputs) -> Iterator[Array]:
    """The sources of values: v and v_new, or the first columns of k and k_new; views."""
    for name in ("k", "k_new") if problem.v_in_k else ("v", "v_new"):
        if name in inputs:
            yield inputs[name][..., : problem.hdim_v]


def packed_bias(problem: Problem) -> npt.NDArray[np.bool_] | None:
    """Where the bias of packed sequences, and its gradient, have elements; the others are padding. None if all are."""
    shape = bias_shape(problem)
    if shape is None or problem.mode is Mode.BATCH:
        return None
    used = np.zeros(shape, np.bool_)
    for b, (rows, keys) in enumerate(zip(problem.query_lengths(), problem.key_lengths(), strict=True)):
        used[b if shape[0] > 1 else 0, :, :rows, :keys] = True
    return used


def batched_rows(tensor: Array, layout: Layout, b: int, head: int) -> Array:
    """(s, d) of one sequence and head of a batch-shaped tensor; a view. A tensor without the last axis gives (s,)."""
    view: Array = tensor[b, head] if layout is Layout.BHSD else tensor[b, :, head]
    return view


def head_rows(tensor: Array, p: Problem, layout: Layout, lengths: tuple[int, ...], b: int, head: int) -> Array:
    """(s, d) of one sequence and head of a batch-shaped or packed tensor; a view. A tensor without the last axis gives
    (s,)."""
    if p.mode is Mode.BATCH:
        return batched_rows(tensor, layout, b, head)
    first, end = offsets(lengths)[b : b + 2]
    view: Array = tensor[head, first:end] if layout is Layout.BHSD else tensor[first:end, head]
    return view


def appended_rows(problem: Problem, inputs: Inputs) -> dict[str, Bools]:
    """Where an append writes: of k and v, booleans in their shapes without the last axis; empty when nothing is appended."""
    if not problem.append or problem.cache_seqlens is None:
        return {}
    out = {name: np.zeros(inputs[name].shape[:-1], np.bool_) for name in ("k", "v") if name in inputs}
    for b, held in enumerate(problem.cache_seqlens):
        view = SequenceView(problem, inputs, b)
        for rows in out.values():
            view.place(rows, held, held + problem.append, True)
    return out


def appended_cache(problem: Problem, inputs: Inputs) -> dict[str, Array]:
    """Copies of k and v after the append, in their storage form; empty when nothing is appended."""
    if not problem.append or problem.cache_seqlens is None:
        return {}
    out = {name: np.array(inputs[name]) for name in ("k", "v") if name in inputs}
    for b, held in enumerate(problem.cache_seqlens):
        view = SequenceView(problem, inputs, b)
        for name, tensor in out.items():
            for g in range(problem.kv_heads):
                view.place(tensor, held, held + problem.append, view.appended(name, g), g)
    return out
