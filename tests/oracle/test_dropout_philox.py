"""Philox 4x32-10 equals Random123's known answers, and the dropout stream matches its documented layout."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.dropout import fmha_stream, keep_scale, philox4x32, stream_of, threshold
from tests.support.referees.brute import philox_word

ONES = 0xFFFFFFFF
# Random123, tests/kat_vectors, "philox4x32 10": counter, key, result
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], expected: tuple[int, int, int, int]
) -> None:
    c0, c1, c2, c3 = (np.array([c], np.uint64) for c in counter)
    assert tuple(int(w[0]) for w in philox4x32((c0, c1, c2, c3), key)) == expected


@pytest.mark.promise("Each dropout stream is that of its kernels.")
def test_stream_layout() -> None:
    problem = Problem.from_cli("-b 3 -H 5 -s 20 -d 8 --dropout 0.3 --seed 81985529216486895 --offset 4294967295")
    h, i = np.array([0, 4, 2]), np.array([0, 7, 19])
    for first, end in ((0, 20), (3, 11), (5, 6), (8, 8)):
        kept = fmha_stream(problem, 2, h, i, first, end)
        for r in range(3):
            for j in range(first, end):
                word = philox_word(problem.seed, problem.offset, j >> 2, int(i[r]), 2 * 5 + int(h[r]), j & 3)
                assert kept[r, j - first] == (word >= threshold(0.3))


def test_kept_share_and_scale() -> None:
    problem = Problem.from_cli("-H 1 -s 512 -d 8 --dropout 0.1")
    rows = np.arange(512)
    share = fmha_stream(problem, 0, rows * 0, rows, 0, 512).mean()
    assert share == pytest.approx(0.9, abs=0.005)
    assert share * keep_scale(0.1) == pytest.approx(1, abs=0.006)
    assert keep_scale(0.5) == 2.0


def test_what_the_stream_cannot_do_is_said() -> None:
    problem = Problem.from_cli("-H 1 -s 4 -d 8 --dropout 0.1 --offset 4294967296")
    rows = np.arange(4)
    with pytest.raises(UnsupportedError, match="4294967296"):
        fmha_stream(problem, 0, rows, rows, 0, 4)
    with pytest.raises(UnsupportedError, match="fa9"):
        stream_of("fa9")
