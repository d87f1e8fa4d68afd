"""The random integers that an upstream example program draws, so that both sides get the same lengths.

Sources: M. Matsumoto and T. Nishimura, "Mersenne Twister" (1998), as ``std::mt19937``; the distribution is that of
libstdc++ 11 and later (``uniform_int_distribution``): D. Lemire, "Fast Random Integer Generation in an Interval" (2019).
"""

from __future__ import annotations

_N, _M = 624, 397
_U32 = 0xFFFFFFFF


class Mt19937:
    """``std::mt19937(seed)``: 32-bit numbers in the order in which the program draws them."""

    def __init__(self, seed: int) -> None:
        state = [seed & _U32]
        for i in range(1, _N):
            state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) & _U32)
        self._state = state
        self._at = _N

    def next(self) -> int:
        """The next number."""
        if self._at == _N:
            self._twist()
        y = self._state[self._at]
        self._at += 1
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        return y ^ (y >> 18)

    def _twist(self) -> None:
        state = self._state
        for i in range(_N):
            y = (state[i] & 0x80000000) | (state[(i + 1) % _N] & 0x7FFFFFFF)
            state[i] = state[(i + _M) % _N] ^ (y >> 1) ^ (0x9908B0DF if y & 1 else 0)
        self._at = 0

    def uniform(self, low: int, high: int) -> int:
        """An integer of [low, high], both included; also a range of one number costs a draw."""
        span = high - low + 1
        product = self.next() * span
        if product & _U32 < span:
            threshold = (1 << 32) % span
            while product & _U32 < threshold:
                product = self.next() * span
        return low + (product >> 32)
