"""Which elements of P dropout keeps: one function for each named stream.

Stream ``fmha`` (this project's own): Philox 4x32-10, key = low and high word of the seed, counter words
c0 = j >> 2, c1 = i, c2 = b * heads + h, c3 = offset; element (b, h, i, j) uses output word j & 3 and is
kept when word >= threshold, threshold = floor(p * 2^32). i and j count inside the sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from fmha_cli.errors import UnsupportedError
from fmha_cli.oracle.philox import philox4x32
from fmha_cli.problem import Problem

Ints = npt.NDArray[np.int64]
Keep = npt.NDArray[np.bool_]
Stream = Callable[[Problem, int, Ints, Ints, int, int], Keep]
"""(problem, b, h (rows), i (rows), first key, end key) -> kept (rows, end - first)."""

_WORD = 2**32


def threshold(p: float) -> int:
    """Words below it are dropped."""
    return int(p * _WORD)


def keep_scale(p: float) -> float:
    """Factor of a kept element: 1 / (1 - p) with p as the threshold quantises it."""
    return _WORD / (_WORD - threshold(p))


def fmha_stream(problem: Problem, b: int, h: Ints, i: Ints, first: int, end: int) -> Keep:
    """The stream ``fmha``.

    Raises:
        UnsupportedError: O001, an offset that the 32-bit counter word cannot hold.
    """
    if problem.offset >= _WORD:
        raise UnsupportedError(
            f"--offset {problem.offset}", code="O001", where="--offset", why="stream fmha holds 32 bits of offset"
        )
    quads = np.arange(first >> 2, (end + 3) >> 2, dtype=np.uint64)
    row_word = i.astype(np.uint64)[:, None]
    head_word = (b * problem.heads + h).astype(np.uint64)[:, None]
    key = (problem.seed % _WORD, problem.seed // _WORD)
    words = philox4x32((quads[None, :], row_word, head_word, np.asarray(problem.offset, np.uint64)), key)
    flat = np.stack(words, axis=-1).reshape(len(i), -1)
    kept: Keep = flat[:, first & 3 : (first & 3) + end - first] >= threshold(problem.dropout)
    return kept


STREAMS: Mapping[str, Stream] = MappingProxyType({"fmha": fmha_stream})


def stream_of(name: str) -> Stream:
    """The stream of that name.

    Raises:
        UnsupportedError: O002, a stream that the oracle does not implement.
    """
    if name not in STREAMS:
        known = ", ".join(STREAMS)
        raise UnsupportedError(f"dropout stream {name} has no reference", code="O002", help=f"the oracle has {known}")
    return STREAMS[name]
