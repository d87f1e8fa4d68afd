"""The flags that the random problems of several backends vary alike."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.problem import Problem

EVEN = 128
"""A multiple of every tile's rows and keys, except those of head dim 64 with 256 keys; such lengths count as even."""


def heads(rng: Random, groups: Sequence[int]) -> list[str]:
    """Heads; ``groups``: query heads for each key/value head."""
    kv_heads = rng.choice((1, 1, 2, 3, 4))
    return ["-H", str(kv_heads * rng.choice(groups)), "--kv-heads", str(kv_heads)]


def hdim(base: Problem, rng: Random, buckets: Sequence[int]) -> int:
    """The base's head dim if it ends one of the buckets, or another multiple of 8 inside its bucket.

    Args:
        buckets: 0, and the head dims of the kernels in order.
    """
    if base.hdim in buckets:
        return base.hdim
    top = next(size for size in buckets if base.hdim <= size)
    low = buckets[buckets.index(top) - 1]
    return rng.choice(range(low + 8, top, 8))


def mask(base: Problem, rng: Random) -> list[str]:
    """A mask of the base's kind."""
    if base.mask.kind is MaskKind.NONE:
        return []
    if base.mask.kind is MaskKind.CAUSAL:
        return ["--causal"]
    left, right = (rng.choice((0, 1, 31, 64, 100, rng.randint(0, 400))) for _ in range(2))
    return ["--mask", rng.choice((*(f"window:{left},{right}",) * 2, f"window:{left},0", f"window:{left},-1"))]


def layout(rng: Random) -> list[str]:
    return ["--layout", rng.choice(("bhsd", "bshd", "bhsd:bshd", "bshd:bhsd"))]


def scale(rng: Random, share: float) -> list[str]:
    """Another scale than the default for a share of the problems."""
    return ["--scale", rng.choice(("0.05", "0.125", "0.3"))] if rng.random() < share else []


def dropout(rng: Random, step: int = 1) -> list[str]:
    """Dropout; ``step``: of which the offset is a multiple."""
    out = ["--dropout", rng.choice(("0.05", "0.1", "0.3", "0.5", "0.9"))]
    return [*out, "--seed", str(rng.randrange(2**63)), "--offset", str(step * rng.randrange(2**20))]


def lengths(base: Problem, rng: Random, top: int) -> list[str]:
    """Batch, rows and keys without a cache: a list for each where the base has packed sequences."""
    batch = rng.choice((1, 1, 2, 3))
    if base.seqlens_q is not None:
        count = rng.randint(1, 5)
        rows, keys = ([0 if rng.random() < 0.1 else size(rng, 260) for _ in range(count)] for _ in range(2))
        return ["--seqlens-q", listed(rows), "--seqlens-k", listed(keys)]
    out = ["-b", str(batch), "-s", str(size(rng, top))]
    return out if rng.random() < 0.4 else [*out, "--seqlen-k", str(size(rng, top))]


def leftpad(rng: Random, batch: int, pads: Sequence[int]) -> list[str]:
    """Left padding of a linear cache, for half of the problems."""
    return ["--cache-leftpad", listed([rng.choice(pads) for _ in range(batch)])] if rng.random() < 0.5 else []


def size(rng: Random, top: int) -> int:
    """A size: small ones are as likely as large ones, and multiples of a tile are common."""
    if rng.random() < 0.35:
        return EVEN * rng.randint(1, max(1, top // EVEN))
    return rng.choice((1, 2, 7, 63, 64, 65, 127, 129, rng.randint(1, top), rng.randint(1, top)))


def listed(values: Sequence[int]) -> str:
    return ",".join(str(v) for v in values)
