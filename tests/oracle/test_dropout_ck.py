"""The dropout stream of CK-Tile equals literal lane loops, one for each way in which its kernels produce the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.dropout import ck_keep_byte, ck_stream, stream_of

Bytes = dict[tuple[int, int], int]
Maker = Callable[[int, int, int, int], Bytes]
"""(seed, base, rows, columns) -> byte of each element; base is offset + (b * heads + h) * 64."""


def philox7(seed: int, offset: int, subsequence: tuple[int, int]) -> list[int]:
    """The 16 bytes of one call: CK's ``philox``, round by round."""
    x, y, z, w = offset & 0xFFFFFFFF, offset >> 32 & 0xFFFFFFFF, *subsequence
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(7):
        a, b = 0xD2511F53 * x, 0xCD9E8D57 * z
        x, y, z, w = (b >> 32) ^ y ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ w ^ k1, a & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [byte for word in (x, y, z, w) for byte in word.to_bytes(4, "little")]


def blocks(rows: int, columns: int, size: int) -> Iterator[tuple[int, int]]:
    """The warp tiles that cover the matrix."""
    yield from ((m, n) for m in range(-(-rows // size)) for n in range(-(-columns // size)))


def mfma_32x32(seed: int, base: int, rows: int, columns: int) -> Bytes:
    """One wave of 64 lanes fills a 32 x 32 tile, 16 bytes per lane.

    The accumulator layout is that of the 32x32 instruction with its operand swizzled by two.
    """
    out: Bytes = {}
    for m, n in blocks(rows, columns, 32):
        for lane in range(64):
            random = philox7(seed, base + lane, (m, n))
            for register in range(16):
                i = 16 * (register // 8) + 8 * (lane // 32) + register % 8
                out[m * 32 + i, n * 32 + lane % 32] = random[register]
    return out


def mfma_16x16(seed: int, base: int, rows: int, columns: int, together: int = 1) -> Bytes:
    """64 lanes fill a 16 x 16 tile, four bytes per lane, or two tiles, one below the other, eight bytes per lane."""
    out: Bytes = {}
    for m, n in blocks(rows, columns, 16):
        if m % together:
            continue
        for lane in range(64):
            sub_n = lane >> 4 & 1
            random = philox7(seed, base + (lane & 47) + (n % 2 << 4), (m // 2, n // 2))
            words = [m % 2 * 2 + sub_n] if together == 1 else [sub_n, 2 + sub_n]
            drawn = [byte for word in words for byte in random[4 * word : 4 * word + 4]]
            for register, byte in enumerate(drawn):
                i = 16 * (m + register // 4) + 4 * (lane // 16) + register % 4
                out[i, n * 16 + lane % 16] = byte
    return out


def mfma_16x16_twice(seed: int, base: int, rows: int, columns: int) -> Bytes:
    return mfma_16x16(seed, base, rows, columns, together=2)


def wmma_16x16(seed: int, base: int, rows: int, columns: int) -> Bytes:
    """32 lanes fill a 16 x 16 tile, eight bytes per lane (RDNA4's accumulator layout)."""
    out: Bytes = {}
    for m, n in blocks(rows, columns, 16):
        for lane in range(32):
            random = philox7(seed, base + (lane & 15) + ((lane >> 4 & 1) << 5) + (n % 2 << 4), (m // 2, n // 2))
            drawn = random[m % 2 * 8 : m % 2 * 8 + 8]
            for register, byte in enumerate(drawn):
                out[m * 16 + 8 * (lane // 16) + register, n * 16 + lane % 16] = byte
    return out


MAKERS: tuple[Maker, ...] = (mfma_32x32, mfma_16x16, mfma_16x16_twice, wmma_16x16)


@pytest.mark.promise("Each dropout stream is that of its kernels.")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("b", "h", "seed", "offset"), [(0, 0, 1, 0), (2, 3, 2**40 + 7, 2**32 - 70), (1, 0, 2**63, 5)])
def test_every_lane_loop_gives_the_stream(maker: Maker, b: int, h: int, seed: int, offset: int) -> None:
    problem = Problem.of(batch=3, heads=4, seqlen=70, dropout=0.4, seed=seed, offset=offset)
    rows = np.arange(70)
    kept = ck_stream(problem, b, rows * 0 + h, rows, 0, 70)
    drawn = maker(seed, offset + (b * 4 + h) * 64, 70, 70)
    limit = ck_keep_byte(0.4)
    wanted = np.array([[drawn[i, j] <= limit for j in range(70)] for i in range(70)])
    assert np.array_equal(kept, wanted)
    assert 0.5 < kept.mean() < 0.7


def test_any_rows_and_columns_of_it() -> None:
    problem = Problem.of(batch=2, heads=3, seqlen=100, seqlen_k=90, dropout=0.25, seed=9, offset=11)
    rows = np.arange(100)
    whole = ck_stream(problem, 1, rows * 0 + 2, rows, 0, 90)
    picked = np.array([97, 3, 64])
    assert np.array_equal(ck_stream(problem, 1, picked * 0 + 2, picked, 37, 77), whole[picked, 37:77])
    heads = np.array([0, 2, 1])
    mixed = ck_stream(problem, 1, heads, picked, 0, 90)
    assert np.array_equal(mixed[1], whole[3])
    assert not np.array_equal(mixed[0], whole[97])


@pytest.mark.parametrize(("p", "byte"), [(0.0, 255), (0.2, 204), (0.5, 127), (0.9, 25), (0.999, 0), (1 / 255, 254)])
def test_quantised_probability(p: float, byte: int) -> None:
    assert ck_keep_byte(p) == byte


def test_share_that_is_kept() -> None:
    problem = Problem.of(seqlen=512, dropout=0.3, seed=3)
    rows = np.arange(512)
    share = ck_stream(problem, 0, rows * 0, rows, 0, 512).mean()
    assert abs(share - (ck_keep_byte(0.3) + 1) / 256) < 0.005


def test_it_is_registered() -> None:
    assert stream_of("ck") is ck_stream
