"""A problem and its tensors as the argument block of a kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.backends.cpu.meanings import meanings, scales
from fmha_cli.backends.cpu.rules import group_rows
from fmha_cli.codegen.abi import (
    APPEND,
    BACKWARD,
    FORWARD,
    FmhaCpuAppendArgs,
    FmhaCpuArgs,
    FmhaCpuBwdArgs,
    Interface,
    part_floats,
)
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import CacheKind, Layout, Mode, RotaryStyle
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.domain.tensors import ROTARY_TABLES, Element, offsets, shapes_of

_WORD = 2**32

_FORWARD = {"q": "q", "k": "k", "v": "v", "o": "o"}
_BACKWARD = {"do": "dout", "dq": "dq", "dk": "dk", "dv": "dv"}
_APPEND = {"k_new": "k_new", "v_new": "v_new"}
"""Names of the tensors of rows -> their names in the argument block."""

Q_ROTATED, PARTS = "q_rotated", "parts"
"""Workspaces: rotated queries, dense and laid out like q; and the results of split kernels for the combine kernel."""


class Arguments:
    """The block of one binding, and the arrays of lengths to which it points.

    Args:
        block: the kernel's argument block.
        base: address of the arena's first byte.
        settings: members of the block that depend on the processor; one that is missing has the kernel's own value.
    """

    def __init__(
        self,
        block: type[FmhaCpuArgs],
        problem: Problem,
        tensors: Mapping[str, BoundTensor],
        base: int,
        threads: int,
        settings: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._arrays: list[ctypes.Array[ctypes.c_int64] | ctypes.Array[ctypes.c_float]] = []
        dropped = int(problem.dropout * _WORD)
        backward, append = issubclass(block, FmhaCpuBwdArgs), issubclass(block, FmhaCpuAppendArgs)
        rows = _FORWARD | (_BACKWARD if backward else _APPEND if append else {})
        if problem.v_in_k:  # V is a view of K, an appended key brings its value, and the kernel adds dV to dK
            tensors = {**tensors, "v": tensors["k"]}
            rows = {name: field for name, field in rows.items() if name not in ("dv", "v_new")}
        rotated = _rotated(problem, tensors)
        if rotated is not None:
            tensors = {**tensors, Q_ROTATED if append else "q": rotated}
            rows |= {Q_ROTATED: Q_ROTATED} if append else {}
        others = ("lse", "bias", "alibi_slopes", "sink_logits", *(("dbias",) if backward else ()))
        self.block = block(
            **{field: base + tensors[name].offset for name, field in rows.items()},
            **{name: base + tensors[name].offset for name in others if name in tensors},
            **self._lengths(problem),
            **self._tables(problem),
            **scales(problem, tensors, base),
            **_strides(problem, tensors, rows),
            **(_paging(problem, tensors, base) if problem.paged else {}),
            **(_parts(problem, tensors[PARTS], base) if PARTS in tensors and not append and not backward else {}),
            **(_appending(problem, tensors, base) if append else {}),
            batch=problem.batch,
            heads=problem.heads,
            kv_heads=problem.kv_heads,
            seqlen_q=problem.seqlen_q,
            seqlen_k=problem.seqlen_k,
            hdim=problem.hdim,
            hdim_v=problem.hdim_v,
            left=problem.mask.left or 0,
            right=problem.mask.right or 0,
            sink=problem.sink,
            splits=problem.splits,
            seed=problem.seed,
            scale=problem.scale,
            softcap=problem.softcap,
            keep_scale=_WORD / (_WORD - dropped),
            dropout_threshold=dropped,
            offset=problem.offset if dropped else 0,
            has_left=int(problem.mask.left is not None),
            has_right=int(problem.mask.right is not None),
            top_left=int(problem.mask.align is Align.TOP_LEFT),
            threads=threads,
            **settings,
        )

    def _lengths(self, problem: Problem) -> dict[str, int]:
        group = problem.mode is Mode.GROUP
        cached = problem.kv_cache.kind is not CacheKind.NONE
        out = {}
        if group:
            out["q_len"] = self._array(problem.query_lengths())
            out["q_start"] = self._array(offsets(problem.query_lengths())[:-1])
        if group or cached:
            out["k_len"] = self._array(problem.key_lengths())
        if group and not cached:
            out["k_start"] = self._array(offsets(problem.key_lengths())[:-1])
        if problem.cache_leftpad is not None:
            out["k_start"] = self._array(problem.cache_leftpad)
        if problem.cache_batch_idx is not None:
            out["kv_item"] = self._array(problem.cache_batch_idx)
        return out

    def _tables(self, problem: Problem) -> dict[str, int]:
        """The meaning of the bytes of Q, and of K and V; empty for wider types."""
        elements = {"q_table": Element.of(problem.dtype, problem.fp8_encoding), "k_table": Element.of_keys(problem)}
        out = {}
        for name, element in elements.items():
            if element.nbytes == 1:
                table = (ctypes.c_float * 256)(*meanings(element))
                self._arrays.append(table)
                out[name] = ctypes.addressof(table)
        return out

    def _array(self, values: Sequence[int]) -> int:
        array = (ctypes.c_int64 * len(values))(*values)
        self._arrays.append(array)
        return ctypes.addressof(array)


def _strides(problem: Problem, tensors: Mapping[str, BoundTensor], rows: Mapping[str, str]) -> dict[str, int]:
    """Batch, head and row strides of every tensor that the block holds."""
    out = {}
    for name, field in rows.items():
        layout, paged = problem.layout_of(name), problem.paged and name in ("k", "v")
        out.update(_name_strides(field, (0, *_page(tensors[name])[1:]) if paged else _rows(tensors[name], layout)))
    if "lse" in tensors:
        out.update(_name_strides("lse", (0, *tensors["lse"].strides)[-3:]))
    for name in ("bias", "dbias") if "do" in rows else ("bias",):
        if name in tensors:
            bias = tensors[name]
            # Of an axis of one plane or row all share it; an axis of no rows has none to share.
            kept = tuple(0 if n == 1 else s for s, n in zip(bias.strides[:3], bias.shape[:3], strict=True))
            out.update(_name_strides(name, kept))
    slopes = tensors.get("alibi_slopes")
    if slopes is not None:
        if slopes.strides[-1] != 1:
            raise InternalError("alibi_slopes must be contiguous over the heads")
        out["alibi_batch_stride"] = slopes.strides[0] if len(slopes.shape) == 2 else 0
    return out


def _paging(problem: Problem, tensors: Mapping[str, BoundTensor], base: int) -> dict[str, int]:
    table = tensors["block_table"]
    return {
        "block_table": base + table.offset,
        "block_table_stride": table.strides[0],
        "page": problem.kv_cache.page,
        "k_page_stride": _page(tensors["k"])[0],
        "v_page_stride": _page(tensors["v"])[0],
    }


def _page(tensor: BoundTensor) -> tuple[int, int, int]:
    """(page, head, row) strides of a paged cache (pages, page, kv_heads, d)."""
    page, row, head, _ = tensor.strides
    return page, head, row


def _parts(problem: Problem, space: BoundTensor, base: int) -> dict[str, int]:
    return {PARTS: base + space.offset, "part_floats": part_floats(group_rows(problem), problem.hdim_v)}


def _appending(problem: Problem, tensors: Mapping[str, BoundTensor], base: int) -> dict[str, int | float]:
    return {
        "append": problem.append,
        "rotary_dim": problem.rotary.dim,
        "rotary_base": problem.rotary_base,
        "interleaved": int(problem.rotary.style is RotaryStyle.INTERLEAVED),
        **{name: base + tensors[name].offset for name in ROTARY_TABLES if name in tensors},
    }


def _rotated(problem: Problem, tensors: Mapping[str, BoundTensor]) -> BoundTensor | None:
    """The workspace of rotated queries as a tensor like q without gaps, or None."""
    if Q_ROTATED not in tensors:
        return None
    shape = shapes_of(problem)["q"].shape
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return BoundTensor(Q_ROTATED, tensors[Q_ROTATED].offset, tensors["q"].dtype, shape, strides)


def _name_strides(name: str, strides: Sequence[int]) -> dict[str, int]:
    axes = ("batch", "head", "row")
    return {f"{name}_{axis}_stride": stride for axis, stride in zip(axes, strides, strict=True)}


def _rows(tensor: BoundTensor, layout: Layout) -> tuple[int, int, int]:
    """(batch, head, row) strides; a packed tensor has no batch axis."""
    if tensor.strides[-1] != 1 and tensor.shape[-1] > 1:
        raise InternalError(f"{tensor.name}: the last axis must be contiguous")
    *batch, first, second, _ = tensor.strides
    head, row = (first, second) if layout is Layout.BHSD else (second, first)
    return batch[0] if batch else 0, head, row


def interface_of(kernel: KernelSpec) -> Interface:
    """How the kernel is called. Raises as ``algorithm_of``."""
    return {LoopKind.BACKWARD: BACKWARD, LoopKind.APPEND: APPEND}.get(algorithm_of(kernel).kind, FORWARD)
