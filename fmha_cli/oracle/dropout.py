"""The elements of P that dropout keeps: one function for each named stream.

Stream ``fmha`` (this project's own): Philox 4x32-10, key = low and high word of the seed, counter words
c0 = j >> 2, c1 = i, c2 = b * heads + h, c3 = offset; element (b, h, i, j) uses output word j & 3 and is
kept when word >= threshold, threshold = floor(p * 2^32). i and j count inside the sequence.

``ck_stream``, ``fa2_stream`` and ``memeff_stream`` state the streams ``ck`` (Composable Kernel), ``fa2`` (FlashAttention-2)
and ``memeff`` (memory-efficient attention of xformers and PyTorch). The first two compare bytes, and divide a kept element
by 1 - p, not by the share that they keep. ``keep_factor`` tells what each stream multiplies a kept element by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.features import DROPOUT_STREAMS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.tensors import Ints, round_to

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Keep = npt.NDArray[np.bool_]
Stream = Callable[[Problem, int, Ints, Ints, int, int], Keep]
"""(problem, b, h, i, first, end) -> kept, a bool array of shape (rows, end - first).

It marks the kept elements of P: rows (h[r], i[r]) of sequence b, keys first to end - 1. ``h`` and ``i`` are int64
arrays of shape (rows,). The result for a row and a key must not depend on the block in which they are requested.
"""

_WORD = 2**32
_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_PHILOX_ROUNDS = 10
_CK_TILE, _CK_LANES, _CK_ROUNDS = 32, 64, 7
_FA2_ROWS, _FA2_COLUMNS, _FA2_LANES, _FA2_ROUNDS = 16, 32, 32, 7
_QUAD = np.uint64(4)


def philox4x32(
    counter: tuple[U64, U64, U64, U64], key: tuple[int, int], rounds: int = _PHILOX_ROUNDS
) -> tuple[U32, U32, U32, U32]:
    """Philox 4x32: four 32-bit words for each counter.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the constants are those
    of Random123 ``philox.h`` (``PHILOX_M4x32_0/1``, ``PHILOX_W32_0/1``).

    Args:
        counter: words c0..c3, each a uint64 array with values below 2^32; they broadcast against each other.
        key: words k0, k1 below 2^32.
        rounds: 10, the authors' recommendation; some GPU kernels use 7.
    """
    c0, c1, c2, c3 = np.broadcast_arrays(*counter)
    k0, k1 = key
    for _ in range(rounds):
        p0, p1 = c0 * _MULTIPLY_0, c2 * _MULTIPLY_1
        c0, c2 = (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0), (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + _WEYL_0) & 0xFFFFFFFF, (k1 + _WEYL_1) & 0xFFFFFFFF
    return c0.astype(np.uint32), c1.astype(np.uint32), c2.astype(np.uint32), c3.astype(np.uint32)


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


def ck_stream(problem: Problem, b: int, h: Ints, i: Ints, first: int, end: int) -> Keep:
    """The stream ``ck``: the same bits in CK-Tile's forward and backward kernels, whatever their tiles.

    P is cut into tiles of 32 x 32. Philox 4x32-7 with key = low and high word of the seed and counter words
    c0, c1 = low and high word of offset + (b * heads + h) * 64 + lane, c2 = i div 32, c3 = j div 32, gives 16 bytes,
    little end first. Element (i, j) takes byte 8 * (i div 16 mod 2) + i mod 8 of lane 32 * (i div 8 mod 2) + j mod 32
    and is kept when byte <= floor((1 - p) * 255), so a share of (floor((1 - p) * 255) + 1) / 256 is kept.

    Source: ``ck_tile/ops/fmha/block/block_dropout.hpp`` ``BlockDropout``, ``ck_tile/core/utility/philox_rand.hpp``
    ``philox``, ``init_dropout`` of the kernels' arguments.
    """
    tile = np.uint64(_CK_TILE)
    column, row = np.arange(first, end, dtype=np.uint64)[None, :], i.astype(np.uint64)[:, None]
    head = (b * problem.heads + h).astype(np.uint64)[:, None] * np.uint64(_CK_LANES) + np.uint64(problem.offset)
    place = head + row // np.uint64(8) % np.uint64(2) * tile + column % tile
    counter = (place % np.uint64(_WORD), place // np.uint64(_WORD), row // tile, column // tile)
    key = (problem.seed % _WORD, problem.seed // _WORD % _WORD)
    four = np.stack(philox4x32(counter, key, _CK_ROUNDS), axis=-1)
    byte = 8 * (i // 16 % 2) + i % 8
    chosen = np.take_along_axis(four, np.broadcast_to((byte // 4)[:, None, None], (*four.shape[:2], 1)), axis=-1)
    values = chosen[..., 0] >> (8 * (byte % 4)).astype(np.uint32)[:, None] & np.uint32(0xFF)
    kept: Keep = values <= ck_keep_byte(problem.dropout)
    return kept


def ck_keep_byte(p: float) -> int:
    """Largest byte that CK keeps: ``p_undrop_in_uint8_t``, in its single precision."""
    return int(np.floor(np.float32(1.0 - float(np.float32(p))) * np.float32(255)))


def fa2_stream(problem: Problem, b: int, h: Ints, i: Ints, first: int, end: int) -> Keep:
    """The stream ``fa2``: the same bits in FlashAttention-2's forward and backward kernels, whatever their tiles.

    P is cut into tiles of 16 x 32, four ``m16n8`` accumulators of a warp each. Philox 4x32-7 with key = low and
    high word of the seed and counter words c0, c1 = low and high word of offset + (b * heads + h) * 32 + lane,
    c2 = i div 16, c3 = j div 32, gives 16 bytes, little end first. With the accumulators' layout, element (i, j) is
    lane 4 * (i mod 8) + j mod 8 div 2's, and its byte is 8 * (j div 16 mod 2) + 4 * (j div 8 mod 2) + 2 * (i div 8 mod 2)
    + j mod 2. It is kept when byte <= floor((1 - p) * 255), so a share of (floor((1 - p) * 255) + 1) / 256 is kept,
    and divided by 1 - p.

    Source: ``csrc/flash_attn/src/dropout.h`` ``Dropout``, ``philox.cuh`` ``philox``, ``utils.h``
    ``convert_layout_acc_dropout``, ``flash_fwd_kernel.h`` and ``flash_bwd_kernel.h`` ``block_row_idx``.
    """
    column, tile = np.arange(first, end), first // _FA2_COLUMNS
    quad = np.arange(4 * tile, 4 * ((end - 1) // _FA2_COLUMNS + 1))  # of lanes: they share a row and hold 8 columns
    lane = 4 * (i % 8)[:, None] + quad % 4
    head = (b * problem.heads + h).astype(np.uint64)[:, None] * np.uint64(_FA2_LANES)
    place = head + lane.astype(np.uint64) + np.uint64(problem.offset % _WORD**2)
    row_tile, column_tile = (i // _FA2_ROWS).astype(np.uint64)[:, None], (quad // 4).astype(np.uint64)
    key = (problem.seed % _WORD, problem.seed // _WORD % _WORD)
    counter = (place % np.uint64(_WORD), place // np.uint64(_WORD), row_tile, column_tile)
    four = np.stack(philox4x32(counter, key, _FA2_ROUNDS), axis=-1)
    values = four.astype("<u4").view(np.uint8)
    byte = 8 * (column // 16 % 2) + 4 * (column // 8 % 2) + column % 2 + 2 * (i // 8 % 2)[:, None]
    held = 4 * (column // _FA2_COLUMNS - tile) + column % 8 // 2
    kept: Keep = values[np.arange(len(i))[:, None], held, byte] <= fa2_keep_byte(problem.dropout)
    return kept


def fa2_keep_byte(p: float) -> int:
    """Largest byte that FlashAttention-2 keeps: ``p_dropout_in_uint8_t``, of 1 - p in single precision."""
    return int(np.floor(float(np.float32(1) - np.float32(p)) * 255.0))


def memeff_stream(problem: Problem, b: int, h: Ints, i: Ints, first: int, end: int) -> Keep:
    """The stream ``memeff``: the same bits in the memory-efficient forward and backward kernels, whatever their tiles.

    Each element has a word of one sequence: with M and N the largest lengths of the problem and n the keys of the element's
    own sequence, word w = offset + (b * heads + h) * M * N + i * n + j. It is word w mod 4 of Philox 4x32-10 with key = low
    and high word of the seed and counter words c0, c1 = low and high word of w div 4, c2 = c3 = 0. The element is kept when
    u > p, both in single precision, u = word * 2^-32 + 2^-33. A kept element is multiplied by ``keep_factor``.

    Source: ``xformers/csrc/attention/cuda/fmha`` of xformers 0.0.28.post3, ``kernel_forward.h`` and ``kernel_backward.h``:
    ``advance_to_block``, ``attention_kernel``, ``processBlockIJ``; cuRAND's ``curand_init``, ``skipahead`` and
    ``curand_uniform4`` of ``curandStatePhilox4_32_10_t``.
    """
    plane = ((b * problem.heads + h) * problem.seqlen_q * problem.seqlen_k).astype(np.uint64)
    start = np.uint64(problem.offset % _WORD**2) + plane  # 64 bits, which wrap as in the kernels
    word = start % _QUAD + (i * problem.key_lengths()[b] + first).astype(np.uint64)
    count = (end - first + 6) // 4  # the quads of end - first words from any of the first four on
    quad = (start // _QUAD + word // _QUAD)[:, None] + np.arange(count, dtype=np.uint64)
    key = (problem.seed % _WORD, problem.seed // _WORD % _WORD)
    nothing = np.asarray(0, np.uint64)
    four = np.stack(philox4x32((quad & _LOW, quad >> _SHIFT, nothing, nothing), key), axis=-1).reshape(len(i), -1)
    place = (word % _QUAD).astype(np.int64)[:, None] + np.arange(end - first)
    drawn = np.take_along_axis(four, place, axis=-1).astype(np.float32)
    kept: Keep = drawn * np.float32(2**-32) + np.float32(2**-33) > np.float32(problem.dropout)
    return kept


STREAMS: Mapping[str, Stream] = MappingProxyType(
    dict(zip(DROPOUT_STREAMS, (fmha_stream, ck_stream, fa2_stream, memeff_stream), strict=True))
)
"""The streams of the built-in backends. Plugins add further ones (``Registry.dropout_streams``)."""


def keep_factor(stream: Stream, problem: Problem) -> float:
    """The factor of a kept element: ``keep_scale``, but in the stream ``memeff`` 1 / (1 - p) rounded to single precision and
    then to the inputs' type, as its kernels multiply P by it (``static_cast<scalar_t>(dropout_scale)``)."""
    if stream is not memeff_stream:
        return keep_scale(problem.dropout)
    left = 1.0 - np.float64(np.float32(problem.dropout))
    with np.errstate(divide="ignore"):
        return float(round_to(np.float32(1.0 / left), Element.of(problem.dtype)))


def stream_of(name: str, streams: Mapping[str, Stream] = STREAMS) -> Stream:
    """The stream with a name.

    Raises:
        UnsupportedError: O002, no such stream.
    """
    if name not in streams:
        known = ", ".join(streams)
        raise UnsupportedError(f"dropout stream {name} has no reference", code="O002", help=f"there are {known}")
    return streams[name]
