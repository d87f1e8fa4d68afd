"""A problem and its tensors as the argument block of a kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fmha_cli.codegen.abi import FmhaCpuArgs, FmhaCpuBwdArgs
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import CacheKind, Layout, Mode
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.domain.tensors import offsets

_WORD = 2**32

_FORWARD = {"q": "q", "k": "k", "v": "v", "o": "o"}
_BACKWARD = {"do": "dout", "dq": "dq", "dk": "dk", "dv": "dv"}
"""Names of the tensors of rows -> their names in the argument block."""


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
        self._arrays: list[ctypes.Array[ctypes.c_int64]] = []
        dropped = int(problem.dropout * _WORD)
        backward = issubclass(block, FmhaCpuBwdArgs)
        rows = _FORWARD | (_BACKWARD if backward else {})
        others = ("lse", "bias", "alibi_slopes", "sink_logits", *(("dbias",) if backward else ()))
        self.block = block(
            **{field: base + tensors[name].offset for name, field in rows.items()},
            **{name: base + tensors[name].offset for name in others if name in tensors},
            **self._lengths(problem),
            **_strides(problem, tensors, rows),
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
        return out

    def _array(self, values: Sequence[int]) -> int:
        array = (ctypes.c_int64 * len(values))(*values)
        self._arrays.append(array)
        return ctypes.addressof(array)


def _strides(problem: Problem, tensors: Mapping[str, BoundTensor], rows: Mapping[str, str]) -> dict[str, int]:
    """Batch, head and row strides of every tensor that the block holds."""
    out = {}
    for name, field in rows.items():
        layout = problem.layout_out if name in ("o", "do") else problem.layout
        out.update(_named(field, _rows(tensors[name], layout)))
    if "lse" in tensors:
        out.update(_named("lse", (0, *tensors["lse"].strides)[-3:]))
    for name in ("bias", "dbias") if "do" in rows else ("bias",):
        if name in tensors:
            bias = tensors[name]
            kept = tuple(s if n > 1 else 0 for s, n in zip(bias.strides[:3], bias.shape[:3], strict=True))
            out.update(_named(name, kept))
    slopes = tensors.get("alibi_slopes")
    if slopes is not None:
        if slopes.strides[-1] != 1:
            raise InternalError("alibi_slopes must be contiguous over the heads")
        out["alibi_batch_stride"] = slopes.strides[0] if len(slopes.shape) == 2 else 0
    return out


def _named(name: str, strides: Sequence[int]) -> dict[str, int]:
    axes = ("batch", "head", "row")
    return {f"{name}_{axis}_stride": stride for axis, stride in zip(axes, strides, strict=True)}


def _rows(tensor: BoundTensor, layout: Layout) -> tuple[int, int, int]:
    """(batch, head, row) strides; a packed tensor has no batch axis."""
    if tensor.strides[-1] != 1 and tensor.shape[-1] > 1:
        raise InternalError(f"{tensor.name}: the last axis must be contiguous")
    *batch, first, second, _ = tensor.strides
    head, row = (first, second) if layout is Layout.BHSD else (second, first)
    return batch[0] if batch else 0, head, row
