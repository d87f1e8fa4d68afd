"""The dropout stream of FlashAttention-2 equals literal loops over warps, lanes and registers.

The loops cover the tile shapes of its forward and backward kernels.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.dropout import fa2_keep_byte, fa2_stream, keep_scale, stream_of

M32, M64 = 2**32 - 1, 2**64 - 1
Bytes = npt.NDArray[np.int64]

FORWARD = [(128, 128, 4), (128, 64, 4), (128, 32, 4), (64, 64, 4), (128, 64, 8)]
"""(kBlockM, kBlockN, kNWarps)."""
BACKWARD = [(128, 128, 8, 4), (64, 128, 8, 2), (64, 64, 8, 4)]
"""(kBlockM, kBlockN, kNWarps, AtomLayoutMSdP)."""


def philox(seed: int, subsequence: int, offset: int) -> bytes:
    """``philox.cuh``: six rounds that increment the key, and a seventh."""
    key = [seed & M32, seed >> 32]
    counter = [offset & M32, offset >> 32, subsequence & M32, subsequence >> 32]
    for round_ in range(7):
        low, high = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(high >> 32) ^ counter[1] ^ key[0], high & M32, (low >> 32) ^ counter[3] ^ key[1], low & M32]
        if round_ < 6:
            key = [(key[0] + 0x9E3779B9) & M32, (key[1] + 0xBB67AE85) & M32]
    return struct.pack("<4I", *counter)


def apply_dropout(
    out: Bytes,
    *,
    seed: int,
    offset: int,
    lane: int,
    block_row: int,
    block_column: int,
    row_stride: int,
    first_row: int,
    first_column: int,
    mma_m: int,
    mma_n: int,
) -> None:
    """``Dropout::apply_dropout`` of one thread, which stores each element's byte.

    Accumulator c of MMA (mi, ni) of the thread is in a 16 x 8 tile at row lane / 4 + 8 * (c / 2) and column 2 * (lane %
    4) + c % 2. The tile begins at row ``first_row`` + mi * 16 * ``row_stride`` and column ``first_column`` + 8 * ni.
    """
    for m in range(mma_m):
        for n in range(mma_n // 2 // 2):
            random = philox(seed, block_row + m * row_stride | (block_column + n) << 32, offset + lane & M64)
            for j in range(2):
                for i in range(8):  # (4, 2) of convert_layout_acc_dropout: the accumulator, and which of two MMAs
                    c, ni = i % 4, 2 * (2 * n + j) + i // 4
                    row = first_row + m * 16 * row_stride + lane // 4 + 8 * (c // 2)
                    column = first_column + 8 * ni + 2 * (lane % 4) + c % 2
                    if row < out.shape[0] and column < out.shape[1]:
                        assert out[row, column] < 0
                        out[row, column] = random[j * 8 + i]


def forward_bytes(tile: tuple[int, int, int], rows: int, columns: int, seed: int, offset: int) -> Bytes:
    """``compute_attn_1rowblock``: the ``block_row_idx`` and ``block_col_idx`` of every block, warp and lane."""
    block_m, block_n, warps = tile
    out = np.full((rows, columns), -1)
    for m_block in range(-(-rows // block_m)):
        for n_block in range(-(-columns // block_n)):
            for thread in range(32 * warps):
                apply_dropout(
                    out,
                    seed=seed,
                    offset=offset,
                    lane=thread % 32,
                    block_row=m_block * (block_m // 16) + thread // 32,
                    block_column=n_block * (block_n // 32),
                    row_stride=warps,
                    first_row=m_block * block_m + thread // 32 * 16,
                    first_column=n_block * block_n,
                    mma_m=block_m // (16 * warps),
                    mma_n=block_n // 8,
                )
    return out


def backward_bytes(tile: tuple[int, int, int, int], rows: int, columns: int, seed: int, offset: int) -> Bytes:
    """``compute_dq_dk_dv_1colblock``: the warps form ``AtomLayoutMS`` rows, each with contiguous columns."""
    block_m, block_n, warps, atoms = tile
    mma_n_sdp = block_n // (16 * warps // atoms)
    out = np.full((rows, columns), -1)
    for n_block in range(-(-columns // block_n)):
        for m_block in reversed(range(-(-rows // block_m))):
            for thread in range(32 * warps):
                warp = thread // 32
                apply_dropout(
                    out,
                    seed=seed,
                    offset=offset,
                    lane=thread % 32,
                    block_row=m_block * (block_m // 16) + warp % atoms,
                    block_column=n_block * (block_n // 32) + warp // atoms * (mma_n_sdp // 2),
                    row_stride=atoms,
                    first_row=m_block * block_m + warp % atoms * 16,
                    first_column=n_block * block_n + warp // atoms * mma_n_sdp * 16,
                    mma_m=block_m // (16 * atoms),
                    mma_n=mma_n_sdp * 2,
                )
    return out


@pytest.mark.promise("Each dropout stream is that of its kernels.")
@pytest.mark.parametrize("tile", [*FORWARD, *BACKWARD], ids=str)
@pytest.mark.parametrize(("b", "h", "seed", "offset"), [(2, 3, 2**40 + 7, 2**32 - 70), (1, 0, 2**64 - 1, 2**64 - 3)])
def test_every_tile_shape_gives_the_stream(tile: tuple[int, ...], b: int, h: int, seed: int, offset: int) -> None:
    rows, columns = 140, 70
    problem = Problem.of(batch=3, heads=4, seqlen=rows, seqlen_k=columns, dropout=0.4, seed=seed, offset=offset)
    make = forward_bytes if len(tile) == 3 else backward_bytes
    drawn = make(tile, rows, columns, seed, offset + (b * 4 + h) * 32)
    assert drawn.min() >= 0
    i = np.arange(rows)
    kept = fa2_stream(problem, b, i * 0 + h, i, 0, columns)
    assert np.array_equal(kept, drawn <= fa2_keep_byte(0.4))
    assert 0.5 < kept.mean() < 0.7


def test_any_rows_and_columns_of_it() -> None:
    problem = Problem.of(batch=2, heads=3, seqlen=100, seqlen_k=90, dropout=0.25, seed=9, offset=11)
    i = np.arange(100)
    whole = fa2_stream(problem, 1, i * 0 + 2, i, 0, 90)
    picked = np.array([97, 3, 64])
    for first, end in ((37, 77), (32, 33), (0, 90), (63, 65)):
        assert np.array_equal(fa2_stream(problem, 1, picked * 0 + 2, picked, first, end), whole[picked, first:end])
    mixed = fa2_stream(problem, 1, np.array([0, 2, 1]), picked, 0, 90)
    assert np.array_equal(mixed[1], whole[3])
    assert not np.array_equal(mixed[0], whole[97])


@pytest.mark.parametrize(("p", "byte"), [(0.2, 204), (0.5, 127), (0.9, 25), (0.999, 0), (0.1, 229), (1e-6, 254)])
def test_quantised_probability(p: float, byte: int) -> None:
    """``uint8_t(std::floor(params.p_dropout * 255.0))`` with a float p_dropout = 1.f - p."""
    assert fa2_keep_byte(p) == byte


def test_share_that_is_kept_and_what_it_is_divided_by() -> None:
    problem = Problem.of(seqlen=512, dropout=0.3, seed=3)
    i = np.arange(512)
    share = fa2_stream(problem, 0, i * 0, i, 0, 512).mean()
    assert abs(share - (fa2_keep_byte(0.3) + 1) / 256) < 0.005
    kept = np.float32(1) - np.float32(0.3)
    assert abs(keep_scale(0.3) / float(np.float32(1) / kept) - 1) < 2**-22


def test_it_is_registered() -> None:
    assert stream_of("fa2") is fa2_stream
