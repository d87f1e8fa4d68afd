"""The dropout stream of memory-efficient attention equals literal loops over the threads of its kernels, with cuRAND's state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.dropout import fa2_stream, keep_factor, keep_scale, memeff_stream, stream_of

M32, M64 = 2**32 - 1, 2**64 - 1
Drawn = npt.NDArray[np.float32]

FORWARD = [(64, 64), (64, 128), (32, 128)]
"""(kQueriesPerBlock, kKeysPerBlock)."""
BACKWARD = [(64, 64), (128, 64), (128, 128)]
"""(kBlockSizeI, kBlockSizeJ)."""


class State:
    """``curandStatePhilox4_32_10_t`` after ``curand_init(seed, 0, offset)``."""

    def __init__(self, seed: int, offset: int) -> None:
        self.key, self.counter, self.place = (seed & M32, seed >> 32), [0, 0, 0, 0], 0
        self.skipahead(offset)

    def skipahead(self, n: int) -> None:
        self.place += n & 3
        n //= 4
        if self.place > 3:
            n, self.place = n + 1, self.place - 4
        self.increment(n)

    def increment(self, n: int) -> None:
        """``Philox_State_Incr``: 128 bits, of which n adds to the low 64."""
        whole = sum(word << (32 * at) for at, word in enumerate(self.counter)) + (n & M64)
        self.counter = [whole >> (32 * at) & M32 for at in range(4)]

    def words(self) -> list[int]:
        c, (k0, k1) = list(self.counter), self.key
        for _ in range(10):
            low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(high >> 32) ^ c[1] ^ k0, high & M32, (low >> 32) ^ c[3] ^ k1, low & M32]
            k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
        return c

    def uniform4(self) -> list[np.float32]:
        """``curand_uniform4``: four words from the place on; the next call continues after them."""
        here = self.words()
        self.increment(1)
        four = [*here, *self.words()][self.place : self.place + 4]
        scale = np.float32(2.3283064e-10)
        return [np.float32(word) * scale + scale / np.float32(2) for word in four]


def fill_tile(
    out: Drawn,
    *,
    seed: int,
    offset: int,
    first: tuple[int, int],
    rows: int,
    keys: int,
    n: int,
    threads_per_row: int,
    threads: int,
) -> None:
    """One tile: each thread draws consecutive elements of one row, four at a time."""
    share = -(-keys // threads_per_row)
    per_thread = -(-share // 4) * 4
    for thread in range(threads):
        i, j = thread // threads_per_row, thread % threads_per_row * per_thread
        if i >= rows or j >= keys:
            continue
        state = State(seed, offset)
        state.skipahead((first[0] + i) * n + first[1] + j)
        for column in range(j, min(j + per_thread, keys), 4):
            for at, value in enumerate(state.uniform4()):
                row, key = first[0] + i, first[1] + column + at
                if column + at < keys:
                    assert np.isnan(out[row, key]), "each element is drawn once"
                    out[row, key] = value


def forward_draws(tile: tuple[int, int], m: int, n: int, seed: int, offset: int) -> Drawn:
    """``kernel_forward.h`` ``attention_kernel``."""
    out = np.full((m, n), np.nan, np.float32)
    threads = tile[0] * tile[1] // 32
    for query in range(0, m, tile[0]):
        for key in range(0, n, tile[1]):
            rows, keys = min(tile[0], m - query), min(tile[1], n - key)
            fill_tile(
                out, seed=seed, offset=offset, first=(query, key), rows=rows, keys=keys, n=n,
                threads_per_row=min(threads // rows, keys), threads=threads,
            )  # fmt: skip
    return out


def backward_draws(tile: tuple[int, int], m: int, n: int, seed: int, offset: int) -> Drawn:
    """``kernel_backward.h`` ``processBlockIJ``."""
    out = np.full((-(-m // tile[0]) * tile[0], n), np.nan, np.float32)
    threads = tile[0] * tile[1] // 32
    for query in range(0, m, tile[0]):
        for key in range(0, n, tile[1]):
            keys = min(tile[1], n - key)
            fill_tile(
                out, seed=seed, offset=offset, first=(query, key), rows=tile[0], keys=keys, n=n,
                threads_per_row=min(threads // tile[0], keys), threads=threads,
            )  # fmt: skip
    return out[:m]


@pytest.mark.promise("Each dropout stream is that of its kernels.")
@pytest.mark.parametrize(("way", "tile"), [*(("fwd", t) for t in FORWARD), *(("bwd", t) for t in BACKWARD)], ids=str)
@pytest.mark.parametrize(("seed", "offset"), [(2**40 + 7, 2**32 - 70), (2**64 - 1, 2**64 - 2)])
def test_every_tile_gives_the_stream(way: str, tile: tuple[int, int], seed: int, offset: int) -> None:
    m, n, b, h, heads = 37, 71, 1, 2, 3
    problem = Problem.of(batch=2, heads=heads, seqlen=m, seqlen_k=n, dropout=0.4, seed=seed, offset=offset)
    make = forward_draws if way == "fwd" else backward_draws
    drawn = make(tile, m, n, seed, offset + (b * heads + h) * m * n & M64)
    assert not np.isnan(drawn).any()
    i = np.arange(m)
    kept = memeff_stream(problem, b, i * 0 + h, i, 0, n)
    assert np.array_equal(kept, drawn > np.float32(0.4))
    assert 0.5 < kept.mean() < 0.7


def test_packed_sequences_step_by_their_own_keys_and_start_by_the_longest() -> None:
    problem = Problem.of(seqlens_q="5,9", seqlens_k="12,7", heads=2, dropout=0.3, seed=3, offset=5)
    i = np.arange(9)
    drawn = forward_draws((64, 64), 9, 7, 3, 5 + (1 * 2 + 1) * 9 * 12)
    assert np.array_equal(memeff_stream(problem, 1, i * 0 + 1, i, 0, 7), drawn > np.float32(0.3))


def test_any_rows_and_columns_of_it() -> None:
    problem = Problem.of(batch=2, heads=3, seqlen=100, seqlen_k=91, dropout=0.25, seed=9, offset=11)
    i = np.arange(100)
    whole = memeff_stream(problem, 1, i * 0 + 2, i, 0, 91)
    picked = np.array([97, 3, 64])
    for first, end in ((37, 77), (32, 33), (0, 91), (63, 65), (90, 91)):
        assert np.array_equal(memeff_stream(problem, 1, picked * 0 + 2, picked, first, end), whole[picked, first:end])
    mixed = memeff_stream(problem, 1, np.array([0, 2, 1]), picked, 0, 91)
    assert np.array_equal(mixed[1], whole[3])
    assert not np.array_equal(mixed[0], whole[97])


@pytest.mark.parametrize(
    ("dtype", "p", "factor"),
    [("bf16", 0.1, 1.109375), ("fp16", 0.1, 1.111328125), ("fp32", 0.1, 1.1111111640930176), ("bf16", 0.5, 2.0)],
)
def test_the_factor_is_rounded_to_the_inputs_type(dtype: str, p: float, factor: float) -> None:
    problem = Problem.of(seqlen=8, dtype=dtype, dropout=p)
    assert keep_factor(memeff_stream, problem) == factor
    assert keep_factor(fa2_stream, problem) == keep_scale(p)


def test_it_is_registered() -> None:
    assert stream_of("memeff") is memeff_stream
