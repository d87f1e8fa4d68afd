"""The lengths of a case's sequences, as the upstream program makes them from ``-s``, ``-s_k`` and ``-seed``.

Both sides get the same lengths, because the program's random integers are drawn here too.

Source: composable_kernel ``example/ck_tile/01_fmha/utils.hpp``, ``generate_missing_seqlens`` and
``generate_seqlens``; ``fmha_fwd_runner.hpp``, ``fmha_fwd_run`` for the order of the draws.
The engine is ``std::mt19937`` (M. Matsumoto and T. Nishimura, "Mersenne Twister", 1998). The distribution is that of
libstdc++ 11 and later, ``uniform_int_distribution`` (D. Lemire, "Fast Random Integer Generation in an Interval", 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fmha_cli.domain.counterpart import UpstreamCase

_INT_MAX = 2**31 - 1
_U32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Lengths:
    """The lengths of one case.

    Attributes:
        queries: of each sequence.
        keys: of each sequence, new ones included.
        new: keys that are appended to each sequence.
        drawn: whether the program drew some of the lengths.
    """

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    new: int
    drawn: bool

    @property
    def cached(self) -> tuple[int, ...]:
        """Keys that are in the cache before new ones are appended."""
        return tuple(n - self.new for n in self.keys)


def lengths_of(case: UpstreamCase) -> Lengths:
    """The lengths of a case.

    Raises:
        ValueError: the program refuses them, or draws them from an unknown seed (``-seed=0``).
    """
    draw = _Draw(case.number("seed"))
    batch = case.number("b")
    given_q, given_k = case.numbers("s"), case.numbers("s_k")
    new = case.number("s_knew")
    if new < 0:
        new = draw.uniform(1, given_q[0])
    appending = new > 0 or case.number("rotary_dim") > 0
    least = max(new, 0)
    queries: list[int]
    keys: list[int]
    if not case.on("mode") or appending:
        most = given_q[0] if given_k[0] < 0 else given_k[0]
        queries, keys = [given_q[0]] * batch, [most] * batch
        if batch > 1 and appending:
            if most < least:
                raise ValueError(f"seqlen_k {most} is less than the {least} new keys")
            keys = [most, *(draw.uniform(least, most) for _ in range(batch - 1))]
    else:
        known = min(len(given_q), batch)
        queries = list(given_q[:known])
        keys = [given_k[min(i, len(given_k) - 1)] for i in range(known)]
        keys = [q if k < 0 else k for q, k in zip(queries, keys, strict=True)]
        pads = case.numbers("s_kpad")
        pad = pads[min(known, len(pads)) - 1] if pads else -1
        if known < batch:
            queries += draw.seqlens(batch - known, queries[-1], 1, queries[-1])
            keys += draw.seqlens(batch - known, keys[-1], least, pad)
    if min(keys) < least:
        raise ValueError(f"seqlen_k {min(keys)} is less than the {least} new keys")
    return Lengths(tuple(queries), tuple(keys), new, draw.used)


class _Draw:
    """The program's random engine. It records whether it was used."""

    def __init__(self, seed: int) -> None:
        self._engine = Mt19937(seed)
        self._known = seed != 0
        self.used = False

    def uniform(self, low: int, high: int) -> int:
        """``std::uniform_int_distribution(low, high)``. Raises ValueError: the seed is not known."""
        if not self._known:
            raise ValueError("-seed=0: the program draws lengths that cannot be known")
        self.used = True
        return self._engine.uniform(low, high)

    def seqlens(self, count: int, average: int, least: int, most: int) -> list[int]:
        """``generate_seqlens`` in group mode."""
        least, most = (least if least > 0 else 1), (most if most > 0 else _INT_MAX)
        out = [min(max(average, least), most)] * count
        if count == 1:
            return out
        for _ in range(average * (count // 2)):
            down = self.uniform(0, count - 1)
            if out[down] == least:
                continue
            up = (down + self.uniform(1, count - 1)) % count
            if out[up] >= most:
                continue
            out[down] -= 1
            out[up] += 1
        return out


class Mt19937:
    """``std::mt19937(seed)``: 32-bit numbers in the order in which the program draws them.

    numpy's ``RandomState`` seeds the same engine in the same way.
    """

    def __init__(self, seed: int) -> None:
        self._engine = np.random.RandomState(seed & _U32)

    def next(self) -> int:
        """The next number."""
        return int(self._engine.randint(1 << 32, dtype=np.uint32))

    def uniform(self, low: int, high: int) -> int:
        """An integer from low to high, both included. A range of one number also takes a draw."""
        span = high - low + 1
        product = self.next() * span
        if product & _U32 < span:
            threshold = (1 << 32) % span
            while product & _U32 < threshold:
                product = self.next() * span
        return low + (product >> 32)
