"""Tensors as numpy arrays: element types, rounding, and views of one sequence and head in any storage form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.domain.features import CacheKind, Layout, Mode, QScale
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import SCALE_BLOCK, Element, offsets
from fmha_cli.oracle.rotary import rotate

Array = npt.NDArray[Any]
F64 = npt.NDArray[np.float64]
Inputs = Mapping[str, Array]
"""Tensors by their names in ``fmha_cli.domain.tensors``, in the problem's own layout and storage type."""

_NUMPY: Mapping[Element, npt.DTypeLike] = {
    Element.FP32: np.float32,
    Element.FP16: np.float16,
    Element.BF16: ml_dtypes.bfloat16,
    Element.FP8_E4M3: ml_dtypes.float8_e4m3fn,
    Element.FP8_E5M2: ml_dtypes.float8_e5m2,
    Element.INT32: np.int32,
}


def numpy_dtype(element: Element) -> np.dtype[Any]:
    """The numpy type of a storage type (bf16 and the OCP fp8 types from ``ml_dtypes``)."""
    return np.dtype(_NUMPY[element])


def round_to(values: npt.ArrayLike, element: Element) -> Array:
    """Nearest-even rounding to a storage type; overflow becomes what the type has for it (inf, or NaN in e4m3fn)."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(numpy_dtype(element))


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
        """(seqlen_q, d) of q, dq (layout) or o, do (layout_out); a view into the tensor."""
        p = self.problem
        layout = p.layout_out if name in ("o", "do") else p.layout
        return head_rows(self.inputs[name], p, layout, p.query_lengths(), self.b, h)

    def keys(self, name: str, g: int) -> Array:
        """(seqlen_k, d) of k or v for key/value head ``g``, without padding; appended keys come last, rotated and rounded."""
        p, tensor = self.problem, self.inputs[name]
        if p.cache_seqlens is None:
            return head_rows(tensor, p, p.layout, p.key_lengths(), self.b, g)
        held = p.cache_seqlens[self.b]
        if p.paged:
            page, slot = self.slots(0, held)
            cached = tensor[page, slot, g]
        else:
            cached = batched_rows(tensor, p.layout, self.b, g)[self.leftpad : self.leftpad + held]
        return np.concatenate([cached, self.appended(name, g)]) if p.append else cached

    def slots(self, first: int, end: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(page, slot in the page) of keys first..end-1 of a paged cache."""
        j = np.arange(first, end, dtype=np.int64)
        page = self.problem.kv_cache.page
        return self.inputs["block_table"][self.b].astype(np.int64)[j // page], j % page

    def appended(self, name: str, g: int) -> Array:
        """(append, d): the new rows as the cache keeps them (keys rotated at leftpad + cache_seqlen + t, then rounded)."""
        p = self.problem
        new = batched_rows(self.inputs[f"{name}_new"], p.layout, self.b, g)
        if name == "v" or not p.rotary.dim or p.cache_seqlens is None:
            return new
        positions = self.leftpad + p.cache_seqlens[self.b] + np.arange(p.append)
        return round_to(rotate(new, positions, p.rotary), Element.of(p.dtype))

    def queries(self, h: int, i: npt.NDArray[np.int64]) -> F64:
        """(rows, hdim) float64 of the chosen rows: de-quantised, and rotated when the problem rotates."""
        q = self.rows("q", h)[i].astype(np.float64)
        q *= self.descale("q", h, i)
        first = self.leftpad + self.seqlen_k - self.seqlen_q
        return rotate(q, first + i, self.problem.rotary) if self.problem.rotary.dim else q

    def keys64(self, name: str, g: int) -> F64:
        """(seqlen_k, d) float64 of k or v, de-quantised."""
        out = self.keys(name, g).astype(np.float64)
        if self.problem.qscale is not QScale.NONE:
            out *= self.descale(name, g, np.arange(self.seqlen_k))
        return out

    def descale(self, name: str, head: int, index: npt.NDArray[np.int64]) -> F64:
        """(rows, 1), or (1,), factors of the rows ``index`` of q, k or v."""
        p = self.problem
        if p.qscale is QScale.NONE:
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
        return plane

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


def sequence_views(problem: Problem, inputs: Inputs) -> Iterator[SequenceView]:
    """Every sequence of the problem in order."""
    return (SequenceView(problem, inputs, b) for b in range(problem.batch))


def batched_rows(tensor: Array, layout: Layout, b: int, head: int) -> Array:
    """(s, d) of one sequence and head of a batch-shaped tensor; a view."""
    view: Array = tensor[b, head] if layout is Layout.BHSD else tensor[b, :, head]
    return view


def head_rows(tensor: Array, p: Problem, layout: Layout, lengths: tuple[int, ...], b: int, head: int) -> Array:
    """(s, d) of one sequence and head of a batch-shaped or packed tensor; a view."""
    if p.mode is Mode.BATCH:
        return batched_rows(tensor, layout, b, head)
    first, end = offsets(lengths)[b : b + 2]
    view: Array = tensor[head, first:end] if layout is Layout.BHSD else tensor[first:end, head]
    return view


def appended_cache(problem: Problem, inputs: Inputs) -> dict[str, Array]:
    """Copies of k and v after the append, in their storage form; empty when nothing is appended."""
    if not problem.append or problem.cache_seqlens is None:
        return {}
    out = {name: np.array(inputs[name]) for name in ("k", "v")}
    for view in sequence_views(problem, inputs):
        held = problem.cache_seqlens[view.b]
        for name, tensor in out.items():
            for g in range(problem.kv_heads):
                if problem.kv_cache.kind is CacheKind.PAGED:
                    page, slot = view.slots(held, held + problem.append)
                    tensor[page, slot, g] = view.appended(name, g)
                else:
                    target = batched_rows(tensor, problem.layout, view.b, g)
                    first = view.leftpad + held
                    target[first : first + problem.append] = view.appended(name, g)
    return out
