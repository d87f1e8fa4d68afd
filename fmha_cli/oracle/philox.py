"""Philox 4x32, vectorised.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the
constants are those of Random123 ``philox.h`` (``PHILOX_M4x32_0/1``, ``PHILOX_W32_0/1``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_ROUNDS = 10


def philox4x32(
    counter: tuple[U64, U64, U64, U64], key: tuple[int, int], rounds: int = _ROUNDS
) -> tuple[U32, U32, U32, U32]:
    """Four 32-bit words for each counter.

    Args:
        counter: words c0..c3, each a uint64 array with values below 2^32; they broadcast against each other.
        key: words k0, k1 below 2^32.
        rounds: 10, the authors' recommendation; some GPU kernels make do with 7.
    """
    c0, c1, c2, c3 = np.broadcast_arrays(*counter)
    k0, k1 = key
    for _ in range(rounds):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c2 = (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0), (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return c0.astype(np.uint32), c1.astype(np.uint32), c2.astype(np.uint32), c3.astype(np.uint32)
