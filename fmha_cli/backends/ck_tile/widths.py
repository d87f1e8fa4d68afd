"""K328-K330: 32-bit strides and offsets of the kernels, and the grid that HIP can launch.

Kernel arguments hold strides as ``ck_tile::index_t`` (``int32_t``); offsets of a sequence and a head are added in
64 bits, offsets inside one (sequence, head) view in 32, and a buffer resource spans at most 4 GiB. Source:
``include/ck_tile/ops/fmha/kernel/*.hpp`` ``MakeKargs`` and ``operator()``, ``core/arch/amd_buffer_addressing.hpp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fmha_cli.backends.ck_tile.condition import MAIN, Condition, algorithm_of
from fmha_cli.backends.ck_tile.situation import Situation
from fmha_cli.dtypes import DType
from fmha_cli.features import Layout, QScale
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.rules import Reason, Severity
from fmha_cli.signature import Need
from fmha_cli.tensors import shapes_of

INDEX_END = 1 << 31
BUFFER_END = 1 << 32
GRID_END = 1 << 16
"""Blocks along y and z: ``hipDeviceProp_t.maxGridSize``."""
MX = (DType.MXFP8, DType.MXFP4)


def _strides(s: Situation, kernel: KernelSpec) -> Reason | None:
    found = next(((name, n) for name, n in _largest_strides(s, kernel) if n >= INDEX_END), None)
    if found is None:
        return None
    name, stride = found
    text = f"a stride of {name} would be {stride} elements, kernel arguments hold less than 2^31"
    hint = "--batch in smaller parts" if name == "dq_acc" else "shorter sequences, fewer heads, or --splits 1"
    return Reason("K328", text, hint, Severity.SHAPE)


def _largest_strides(s: Situation, kernel: KernelSpec) -> Iterator[tuple[str, int]]:
    p = s.problem
    if _laid_out(s):
        for name, tensor in shapes_of(p).items():
            outer = 1 if tensor.shape[0] == 1 else 0  # an axis of length 1 has no stride
            yield name, prod(tensor.shape[1 + outer :])
        if p.direction.backward and p.kv_heads != p.heads:
            k = shapes_of(p)["k"].shape
            yield "dk", prod(k[1:]) * p.heads // p.kv_heads
    rows = s.rows
    if kernel.family is Family.FWD_SPLITKV:
        yield "o_acc", p.heads * s.splits.count * rows * p.hdim_v
    if kernel.signature.deterministic is Need.YES:
        batch = 1 if s.group else p.batch
        yield "dq_acc", batch * p.heads * rows * p.hdim


def _views(s: Situation, kernel: KernelSpec) -> Reason | None:
    p = s.problem
    if not _laid_out(s):
        return None
    heads = {Layout.BHSD: (1, 1), Layout.BSHD: (p.heads, p.kv_heads)}
    for name, length, per_row in (
        ("q", s.max_rows, heads[p.layout][0] * p.hdim),
        ("k", s.max_keys if not p.paged else p.kv_cache.page, heads[p.layout][1] * p.hdim),
        ("v", s.max_keys if not p.paged else p.kv_cache.page, heads[p.layout][1] * p.hdim_v),
        ("o", s.max_rows, heads[p.layout_out][0] * p.hdim_v),
        ("bias", s.max_rows if "bias" in shapes_of(p) else 0, s.max_keys),
    ):
        elements = length * per_row
        bits = p.dtype_out.bits if name == "o" else p.dtype.bits
        if elements >= INDEX_END or elements * bits // 8 >= BUFFER_END:
            text = f"one sequence and head of {name} spans {elements} elements: beyond 32-bit offsets or 4 GiB"
            hint = "--layout bhsd" if per_row > p.hdim and name != "bias" else "shorter sequences"
            return Reason("K329", text, hint, Severity.SHAPE)
    return None


def _laid_out(s: Situation) -> bool:
    return s.problem.dtype not in MX and s.problem.qscale is not QScale.MX


def grid_of(s: Situation, kernel: KernelSpec) -> tuple[int, int, int]:
    """Blocks of a main kernel (``GridSize`` of its class).

    A split-KV kernel of head dim 128 without bias and mask takes the heads of a group as rows of one head when
    there is one query row (``kMergeNumHeadGroupsSeqLenQ``).
    """
    p, a = s.problem, algorithm_of(kernel)
    if kernel.family is Family.BWD_DQ_DK_DV:
        return 1 if a.max_seq_q else -(-s.max_keys // a.tile[1]), p.heads, p.batch
    columns = -(-p.hdim_v // a.tile[3])
    if kernel.family is Family.FWD_SPLITKV:
        heads, rows = (p.kv_heads, p.heads // p.kv_heads) if merges_heads(s, kernel) else (p.heads, s.max_rows)
        return -(-rows // a.tile[0]) * columns * s.splits.count, heads, p.batch
    tiles = -(-s.max_rows // a.tile[0]) * columns
    padded = kernel.family is Family.FWD_PAGEDKV and s.cached
    if padded or (kernel.family is Family.BATCH_PREFILL and kernel.signature.mode.value == "group"):
        return p.heads, p.batch, tiles
    return p.heads, tiles, p.batch


def merges_heads(s: Situation, kernel: KernelSpec) -> bool:
    """Whether ``run_instance`` of a split-KV kernel takes the merged variant."""
    signature = kernel.signature
    plain = signature.hdim == 128 and signature.bias.value == "none" and signature.mask.value == "none"
    return plain and s.max_rows == 1 and s.problem.kv_heads < s.problem.heads


def _grid(s: Situation, kernel: KernelSpec) -> Reason | None:
    x, y, z = grid_of(s, kernel)
    if y < GRID_END and z < GRID_END and x < INDEX_END:
        return None
    text = f"a grid of {x} x {y} x {z} blocks: HIP takes less than 65536 along y and z"
    return Reason("K330", text, "shorter sequences or a smaller --batch", Severity.SHAPE)


_KERNELS = "include/ck_tile/ops/fmha/kernel"

WIDTHS: tuple[Condition, ...] = (
    Condition(
        "K328",
        "strides fit 32 bits",
        _strides,
        MAIN,
        "Strides are kernel arguments of type ck_tile::index_t, a 32-bit signed integer, in elements.",
        f"{_KERNELS}/fmha_fwd_kernel.hpp FmhaFwdCommonKargs and its kin",
    ),
    Condition(
        "K329",
        "one sequence and head of a tensor fits 32-bit offsets and 4 GiB",
        _views,
        MAIN,
        "Inside one (sequence, head) view offsets are 32-bit elements and a buffer resource's size is 32-bit bytes. "
        "With layout bshd a view spans the rows of all heads.",
        "include/ck_tile/core/arch/amd_buffer_addressing.hpp make_wave_buffer_resource",
    ),
    Condition(
        "K330",
        "the grid can be launched",
        _grid,
        MAIN,
        "Heads, batch and tiles are the axes of the grid; HIP limits its second and third.",
        f"{_KERNELS}/*.hpp GridSize",
    ),
)
