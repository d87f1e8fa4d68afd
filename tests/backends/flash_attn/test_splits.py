"""Split counts equal an independent transcription of upstream's heuristic in numpy's single precision."""

from __future__ import annotations

from itertools import product
from math import inf
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.backends.flash_attn.situation import heuristic, situation_of, upstreams_splits
from fmha_cli.backends.flash_attn.tiles import log_max_splits, split_traits
from fmha_cli.backends.gpu.arithmetic import Splits, single
from fmha_cli.codegen.flash_attn.traits import MAX_SPLITS
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem


def transcription(blocks: int, slots: int, key_blocks: int, most: int) -> int:
    """``num_splits_heuristic``, statement by statement: float where upstream uses float, double for 0.85."""
    if np.float32(blocks) >= np.float32(0.8) * np.float32(slots):
        return 1
    most = min(most, slots, key_blocks)

    def eligible(n: int) -> bool:
        return n == 1 or (key_blocks + n - 1) // n != (key_blocks + (n - 1) - 1) // (n - 1)

    best, efficiency = np.float32(0), []
    for n in range(1, most + 1):
        if not eligible(n):
            efficiency.append(np.float32(0))
            continue
        waves = np.float32(blocks * n) / np.float32(slots)
        value = np.float32(waves / np.ceil(waves))
        best = max(best, value)
        efficiency.append(value)
    for n in range(1, most + 1):
        if eligible(n) and np.float64(efficiency[n - 1]) >= np.float64(0.85) * np.float64(best):
            return n
    return 1


def test_the_heuristic_on_a_grid() -> None:
    blocks = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 31, 32, 33, 48, 64, 84, 96, 105, 132, 160, 168, 172, 211, 216)
    slots, keys = (1, 2, 16, 112, 168, 216, 264, 296, 376), (0, 1, 2, 3, 8, 11, 16, 31, 64, 65, 128, 200, 513)
    for b, s, k in product(blocks, slots, keys):
        assert heuristic(b, s, k, MAX_SPLITS) == transcription(b, s, k, MAX_SPLITS), (b, s, k)


@given(st.integers(1, 4000), st.integers(1, 800), st.integers(0, 5000), st.sampled_from([1, 16, 128]))
def test_the_heuristic_anywhere(blocks: int, slots: int, keys: int, most: int) -> None:
    assert heuristic(blocks, slots, keys, most) == transcription(blocks, slots, keys, most)


@pytest.mark.slow
@pytest.mark.ci
def test_the_heuristic_sees_planted_faults() -> None:
    """The transcription detects missing eligibility, a wrong number of slots and a wrong maximum."""
    rng, told = Random(3), set()
    for _ in range(4000):
        b, s, k = rng.randrange(1, 200), 2 * rng.randrange(8, 150), rng.randrange(1, 300)
        wanted = transcription(b, s, k, 128)
        told |= {"slots"} if heuristic(b, s // 2, k, 128) != wanted else set()
        told |= {"most"} if heuristic(b, s, k, 64) != wanted else set()
        told |= {"eligible"} if heuristic(b, s, 10**6, 128) != wanted else set()
    assert told == {"slots", "most", "eligible"}
    assert transcription(4, 5, 8, 128) == heuristic(4, 5, 8, 128) == 1  # 0.8f * 5 is 4 in float


def test_nothing_to_split() -> None:
    assert heuristic(0, 264, 8, 128) == 1
    assert heuristic(4, 264, 0, 128) == 1
    assert heuristic(4, 1, 8, 128) == 1


TABLE = [
    # multiprocessors, batch, heads, rows, keys, head dim -> splits
    (132, 1, 8, 1, 8192, 128, 32),
    (132, 1, 32, 1, 8192, 128, 7),
    (108, 1, 16, 1, 4096, 64, 8),
    (108, 16, 32, 1, 4096, 64, 1),
    (132, 2, 8, 512, 512, 128, 2),
    (84, 1, 1, 1, 100000, 256, 105),
    (170, 4, 8, 64, 2000, 192, 7),
]


@pytest.mark.parametrize(("units", "batch", "heads", "rows", "keys", "hdim", "splits"), TABLE)
def test_the_count_of_a_problem(
    units: int, batch: int, heads: int, rows: int, keys: int, hdim: int, splits: int
) -> None:
    block = 256 if hdim <= 64 else 128 if hdim <= 128 else 64
    wanted = transcription(batch * heads * ((rows + 63) // 64), units * 2, (keys + block - 1) // block, 128)
    made = upstreams_splits(batch=batch, heads=heads, rows=rows, keys=keys, hdim=hdim, multiprocessors=units)
    assert (made.count, made.count) == (wanted, splits)
    assert f"{units * 2} slots" in made.why


def test_keys_per_block() -> None:
    assert [split_traits(d).tile[1] for d in (8, 64, 72, 128, 136, 256)] == [256, 256, 128, 128, 64, 64]


def test_the_combine_kernels_size() -> None:
    counts = (2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128)
    assert [log_max_splits(n) for n in counts] == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert log_max_splits(129) is None


def test_single_precision() -> None:
    assert [single(v) for v in (0.8, 1e300, -1e300, 1e-60)] == [float(np.float32(0.8)), inf, -inf, 0.0]


@pytest.mark.parametrize(
    ("line", "count", "why"),
    [
        ("-s 1 --seqlen-k 8k --splits 5", 5, "--splits 5"),
        ("-s 1 --seqlen-k 8k --dropout 0.5", 1, "dropout"),
        ("--seqlens-q 5,1 --seqlens-k 8k,8k", 1, "packed"),
        ("--seqlens-q 1,1 --seqlens-k 8k,8k", 1, "packed"),
        ("--seqlens-q 1,1 --seqlens-k 8k,8k --kv-heads 2", 64, "heuristic"),
        ("-s 512 --direction bwd", 1, "backward"),
    ],
)
def test_who_decides(line: str, count: int, why: str) -> None:
    splits = situation_of(Problem.from_cli(line), DeviceFacts(id="cuda:0", archs=("sm_90",), units=132)).splits
    assert isinstance(splits, Splits)
    assert why in splits.why
    assert splits.count == count
