"""A numpy model of cudnn-frontend's kernels, written from their text.

The model reads the packed parameters, the TMA descriptors as the stand-in encodes them, and device memory. It uses none of
the product's host code but the layout of the parameters. A wrong divider, stride, descriptor, counter or pointer shows in
the outputs, in the guards around every tensor, or as an address outside every allocation. Sums run in numpy's order.

Source: ``generated/sdpa/{sm90,sm100}/prefill/full_seqlens`` of nvidia-cudnn-frontend 1.28.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.codegen.cudnn_oss.params import BLOCKS
from fmha_cli.codegen.struct import ctypes_structure
from fmha_cli.domain.kernel import KernelSpec
from tests.support.fakes.played_maps import read_map
from tests.support.models.kernel_memory import Memory, tile, values

F32 = npt.NDArray[np.float32]
BF16 = np.dtype(ml_dtypes.bfloat16)
LOG2_E, LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
INF = np.float32(np.inf)
KEYS, COLUMNS = 128, 64
"""Keys of a tile, and columns that one copy moves."""


class Stuck(Exception):
    """The kernel would wait for ever: a copy moves another number of bytes than a barrier expects."""


def run_kernel(
    kernel: KernelSpec, block: bytes, grid: tuple[int, int, int], memory: Memory, extra: Sequence[int]
) -> None:
    """Run one kernel over a grid.

    Raises:
        BadAddress: the kernel reads or writes outside every allocation.
        Stuck: it would not end.
    """
    assert not extra
    engine = "sm90" if kernel.arch == "sm_90a" else "sm100"
    p = ctypes_structure(BLOCKS[engine]).from_buffer_copy(block)
    maps = {name: read_map(struct.pack("<16Q", *getattr(p, f"tma_{name}"))) for name in "qkvo"}
    tiles = _counted(p, grid[0], memory) if engine == "sm90" else _ordered(p, grid[0])
    with np.errstate(all="ignore"):
        for batch, head, row in tiles:
            _tile(p, maps, kernel.signature.hdim, memory, (batch, head, row), 128 if engine == "sm90" else 256)


def divided(divisor: Any, number: int) -> tuple[int, int]:
    """``fastDivMod``: quotient and remainder, in 32 bits."""
    quotient = ((2 * number) % 2**32 * divisor.mul >> 32) >> divisor.shr
    return quotient, (number - quotient * divisor.val) % 2**32


def _counted(p: Any, blocks: int, memory: Memory) -> Iterator[tuple[int, int, int]]:
    """sm_90: each block takes tiles from the counter until there are none left."""
    counter = values(memory, p.d_tile_id_counter, np.uint32, 1)
    for _ in range(blocks):
        while True:
            number = int(counter[0])
            counter[0] += 1
            if number >= p.num_tiles:
                break
            batch, rest = divided(p.tiles_hr_div, number)
            head, block = divided(p.tiles_r_div, rest)
            yield batch, head, block * 128


def _ordered(p: Any, blocks: int) -> Iterator[tuple[int, int, int]]:
    """sm_100: the tile of each block, longest rows first, heads side by side."""
    for number in range(blocks):
        section, rest = divided(p.l2_major_divmod, number)
        minor = p.l2_minor_divmod if section < p.num_hb_quotient else p.l2_minor_residual_divmod
        block, inside = divided(minor, rest)
        batch, head = divided(p.num_head_divmod, section * p.l2_minor_divmod.val + inside)
        yield batch, head, (p.num_block - 1 - block) * 256


def _tile(
    p: Any, maps: dict[str, TensorMap], hdim: int, memory: Memory, place: tuple[int, int, int], rows: int
) -> None:
    batch, head, row = place
    desc = p.attnDesc
    first = row + np.arange(rows)[:, None]
    keys_end = min(-(-(row + rows) // KEYS), -(-desc.s_kv // KEYS))
    if rows == 256 and row >= desc.s_q:
        keys_end = 0
    q = _loaded(maps["q"], memory, hdim, row, head, batch, rows)
    scale = LOG2_E * np.float32(p.attn_scale)
    top, total, out = np.full(rows, -INF), np.zeros(rows, np.float32), np.zeros((rows, hdim), np.float32)
    for block in range(keys_end):
        k = _loaded(maps["k"], memory, hdim, block * KEYS, head // desc.q_heads_per_k, batch, KEYS)
        v = _loaded(maps["v"], memory, hdim, block * KEYS, head // desc.q_heads_per_v, batch, KEYS)
        scores = q @ k.T
        if block >= keys_end - rows // KEYS:
            scores[block * KEYS + np.arange(KEYS)[None, :] > first] = np.float32(p.tensor_13)
        before, top = top, np.fmax(top, scores.max(axis=1) * scale)
        shrink = np.exp2(before - top)
        weights = np.exp2(scores * scale - np.where(top == -INF, np.float32(0), top)[:, None])
        total = total * shrink + weights.sum(axis=1, dtype=np.float32)
        # A weight of 0 hides whatever lies outside the tensor: the descriptors ask for that.
        outside = np.isnan(v).any(axis=1) & (weights == 0).all(axis=0)
        out = out * shrink[:, None] + weights.astype(BF16).astype(np.float32) @ np.where(outside[:, None], 0, v)
    for pointer, form, numbers in ((p.d_max, p.desc_max, top * LN2), (p.d_sum_exp, p.desc_sum_exp, total)):
        count = max(0, min(rows, (form.dims[2] if rows == 128 else desc.s_q) - row))
        at = pointer + 4 * (batch * form.strides[0] + head * form.strides[1] + row * form.strides[2])
        tile(memory, at, np.float32, count, form.strides[2], 1)[:, 0] = numbers[:count]
    final = np.where(total[:, None] == 0, 0, out / total[:, None]).astype(BF16)
    _stored(maps["o"], memory, final, row, head, batch, 16 if rows == 128 else 128)


def _loaded(m: TensorMap, memory: Memory, hdim: int, row: int, head: int, batch: int, rows: int) -> F32:
    """Tiles of one map, side by side in shared memory, as single precision; NaN outside the tensor."""
    if m.box != (COLUMNS, 128, 1, 1) or m.swizzle != "128B":
        raise Stuck(f"box {m.box}, swizzle {m.swizzle}")
    out = np.full((rows, hdim), np.nan, np.float32)
    for at in range(0, rows, 128):
        for column in range(0, hdim, COLUMNS):
            inside = _part(m, memory, column, row + at, head, batch)
            out[at : at + inside.shape[0], column : column + inside.shape[1]] = inside
    return out


def _stored(
    m: TensorMap, memory: Memory, numbers: npt.NDArray[Any], row: int, head: int, batch: int, step: int
) -> None:
    """Store ``step`` rows at a time, each in copies of the map's box."""
    if m.swizzle != "128B":
        raise Stuck(f"swizzle {m.swizzle}")
    for at in range(0, len(numbers), step):
        for column in range(0, numbers.shape[1], COLUMNS):
            target = _part(m, memory, column, row + at, head, batch)
            source = np.full((256, 256), np.nan, BF16)  # what lies behind the rows in shared memory
            held = numbers[at : at + step, column : column + COLUMNS]
            source[: held.shape[0], : held.shape[1]] = held
            target[...] = source[: target.shape[0], : target.shape[1]]


def _part(m: TensorMap, memory: Memory, column: int, row: int, head: int, batch: int) -> npt.NDArray[Any]:
    """The elements of a box that lie in the tensor; a writable view."""
    width, rows, heads, batches = m.shape
    if not (0 <= head < heads and 0 <= batch < batches):
        return np.zeros((0, 0), BF16)
    counts = (max(0, min(m.box[1], rows - row)), max(0, min(m.box[0], width - column)))
    at = m.address + 2 * column + row * m.strides[0] + head * m.strides[1] + batch * m.strides[2]
    return tile(memory, at, BF16, counts[0], m.strides[0] // 2, counts[1])
