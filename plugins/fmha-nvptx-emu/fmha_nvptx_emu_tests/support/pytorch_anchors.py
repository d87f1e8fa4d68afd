"""PyTorch's own Triton kernels, from the installed ``torch/sparse/_triton_ops.py``: a softmax and a product of block-sparse data."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np

from fmha_nvptx_emu_tests.support.triton_anchors import Maker, Random, TritonLaunch


def file() -> Path:
    """The file that has the kernels."""
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("sparse") / "_triton_ops.py"


def softmax(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """Softmax of each row's elements; a row's number of blocks is irregular, and one row has none."""
    blocks, tile, most = ([3, 0, 1, 5], 32, 128) if ragged else ([4, 4, 4, 4], 64, 64)
    rows, width = 4, 16
    offsets = np.concatenate(([0], np.cumsum(blocks))).astype(np.int64)
    values = random.normal(0, 3, (rows, int(offsets[-1]) * width)).astype(np.float16)
    wanted = values.astype(np.float64)
    for a, b in pairwise(offsets * width):
        if a < b:
            e = np.exp(wanted[:, a:b] - wanted[:, a:b].max(1, keepdims=True))
            wanted[:, a:b] = e / e.sum(1, keepdims=True)
    arguments = {
        "crow_indices_ptr": offsets, "crow_indices_batch_stride": len(offsets), "crow_indices_stride": 1, "values_ptr": values,
        "values_batch_stride": values.size, "values_row_block_stride": values.shape[1], "values_nnz_col_block_stride": 1,
        "row_block": rows, "col_block": width,
    }  # fmt: skip
    constants = {"MAX_ROW_NNZ": most, "TILE": tile}
    size = f"blocks {blocks}"
    grid = (len(blocks), rows, 1)
    return TritonLaunch(file(), "_bsr_softmax_kernel", size, arguments, constants, {"values_ptr": wanted}, grid, ragged)


def matmul(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """Sums of products of listed pairs of matrices. The kernel asks for square results; a group may have no pair."""
    import triton.language as tl

    side, depth, tile, groups = (32, 16, 16, [2, 0, 1, 4]) if ragged else (64, 64, 32, [2, 2])
    a = random.normal(0, 1, (3, side, depth)).astype(np.float16)
    b = random.normal(0, 1, (3, depth, side)).astype(np.float16)
    pairs = random.integers(0, 3, (sum(groups), 2)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(groups))).astype(np.int64)
    products = a.astype(np.float64)[pairs[:, 0]] @ b.astype(np.float64)[pairs[:, 1]]
    wanted = np.stack([products[i:j].sum(0) for i, j in pairwise(offsets)])
    out = np.zeros((len(groups), side, side), np.float16)
    strides = {
        f"{name}_stride_{axis}": step // array.itemsize
        for name, array, axes in (("blocks", a, "PMK"), ("others", b, "QKN"), ("accumulators", out, "RMN"))
        for axis, step in zip(axes, array.strides, strict=True)
    }
    arguments = {
        "blocks_ptr": a, "others_ptr": b, "accumulators_ptr": out, "pq_offsets_ptr": offsets, "pq_offsets_stride": 1,
        "pq_ptr": pairs, "pq_stride_T": 2, "pq_stride_1": 1, **strides,
    }  # fmt: skip
    constants = {
        "M": side,
        "K": depth,
        "N": side,
        "TILE_M": tile,
        "TILE_N": tile,
        "allow_tf32": True,
        "dot_out_dtype": tl.float32,
    }
    size = f"{side}x{side}x{depth}, groups {groups}"
    grid = (len(groups), (side // tile) ** 2, 1)
    return TritonLaunch(
        file(), "_scatter_mm2_kernel", size, arguments, constants, {"accumulators_ptr": wanted}, grid, ragged, warps=2
    )


CASES: dict[str, Maker] = {"sparse softmax": softmax, "sparse matmul": matmul}
