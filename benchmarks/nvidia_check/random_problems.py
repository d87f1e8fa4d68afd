"""Random problems for a given set of kernels. They vary everything that kernels take at run time.

A seed determines sizes, head counts, layouts, window bounds, caps, probabilities, cache lengths, paddings, pages,
splits and positions. A draw whose kernels are not in the set is repeated, so no further kernel needs a build.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import Alibi, CacheKind
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.problem import Problem
from nvidia_check.shards import Wanted, key_of

SEED = 20
TRIES = 200
"""Draws for one problem before its base is given up for another."""
BUCKETS = (0, 32, 64, 96, 128, 192, 256)
EVEN = 128
"""A multiple of every tile's rows and keys, except those of head dim 64 with 256 keys; such lengths count as even."""


def random_problems(
    bases: Sequence[Problem],
    serves: Callable[[Problem], bool],
    draw: Callable[[Problem, random.Random], list[str]],
    count: int,
    seed: int = SEED,
) -> list[Wanted]:
    """``count`` distinct problems, with equal numbers for each base if possible.

    Args:
        serves: whether the available kernels support a problem.
        draw: the flags of a random problem of a base's kind.

    Raises:
        ValueError: the kernels support too few problems.
    """
    rng, out, seen = random.Random(seed), list[Wanted](), set[str]()
    fruitless = 0
    while len(out) < count:
        base = bases[len(out) % len(bases)] if not fruitless else rng.choice(bases)
        flags = _one(base, serves, draw, rng, seen)
        fruitless = fruitless + 1 if flags is None else 0
        if fruitless > 5 * len(bases):
            raise ValueError(f"{len(out)} problems, and no further one found")
        if flags is not None:
            out.append(Wanted(f"random {len(out)}", flags))
    return out


def _one(
    base: Problem,
    serves: Callable[[Problem], bool],
    draw: Callable[[Problem, random.Random], list[str]],
    rng: random.Random,
    seen: set[str],
) -> str | None:
    for _ in range(TRIES):
        flags = " ".join(draw(base, rng))
        try:
            problem = Problem.from_cli(flags)
        except ImpossibleProblem:
            continue
        key = key_of(flags)
        if key not in seen and serves(problem):
            seen.add(key)
            return problem.repro()
    return None


def flash_problem(base: Problem, rng: random.Random) -> list[str]:
    """The flags of a random problem of the base's kind for FlashAttention."""
    kv_heads = rng.choice((1, 1, 2, 3, 4))
    hdim = base.hdim if base.hdim in BUCKETS else rng.choice(_dims_below(base.hdim))
    out = ["-H", str(kv_heads * rng.choice((1, 1, 2, 3, 4, 8))), "--kv-heads", str(kv_heads), "-d", str(hdim)]
    out += ["--dtype", base.dtype.value, "--layout", rng.choice(("bhsd", "bshd", "bhsd:bshd", "bshd:bhsd"))]
    out += _lengths(base, rng) + _mask(base, rng)
    if base.alibi is not Alibi.NONE:
        out += rng.choice((["--alibi"], ["--alibi-slopes", "filled:h"], ["--alibi-slopes", "filled:bh"]))
    if base.softcap:
        out += ["--softcap", rng.choice(("1", "7.5", "30", "50"))]
    if base.dropout:
        out += ["--dropout", rng.choice(("0.05", "0.1", "0.3", "0.5", "0.9"))]
        out += ["--seed", str(rng.randrange(2**63)), "--offset", str(4 * rng.randrange(2**20))]
    if rng.random() < 0.2:
        out += ["--scale", rng.choice(("0.05", "0.125", "0.3"))]
    if base.direction.backward:
        return [*out, "--direction", base.direction.value, *(["--deterministic"] if rng.random() < 0.3 else [])]
    return [*out, "--splits", str(1 if base.splits == 1 else rng.randint(2, 24)), *(["--lse"] if base.lse else [])]


def _dims_below(hdim: int) -> list[int]:
    """The multiples of 8 that share a bucket with a head dim, without the bucket's own."""
    top = next(size for size in BUCKETS if hdim <= size)
    low = BUCKETS[BUCKETS.index(top) - 1]
    return list(range(low + 8, top, 8))


def size(rng: random.Random, top: int) -> int:
    """A size: small ones are as likely as large ones, and multiples of a tile are common."""
    if rng.random() < 0.35:
        return EVEN * rng.randint(1, max(1, top // EVEN))
    return rng.choice((1, 2, 7, 63, 64, 65, 127, 129, rng.randint(1, top), rng.randint(1, top)))


def _lengths(base: Problem, rng: random.Random) -> list[str]:
    batch = rng.choice((1, 1, 2, 3))
    if base.kv_cache.kind is not CacheKind.NONE:
        return _cached(base, rng, batch)
    if base.seqlens_q is not None:
        count = rng.randint(1, 5)
        rows, keys = ([0 if rng.random() < 0.1 else size(rng, 260) for _ in range(count)] for _ in range(2))
        return ["--seqlens-q", listed(rows), "--seqlens-k", listed(keys)]
    out = ["-b", str(batch), "-s", str(size(rng, 512))]
    return out if rng.random() < 0.4 else [*out, "--seqlen-k", str(size(rng, 512))]


def _cached(base: Problem, rng: random.Random, batch: int) -> list[str]:
    new = rng.randint(1, 40) if base.append else 0
    held = [0 if new and rng.random() < 0.15 else size(rng, 1500) for _ in range(batch)]
    paged = base.kv_cache.kind is CacheKind.PAGED
    rows = new or rng.choice((1, 1, 2, 5, 33, 64))
    out = ["-b", str(batch), "-s", str(rows), "--cache-seqlens", listed(held)]
    out += ["--kv-cache", f"paged:{256 * rng.randint(1, 3)}" if paged else "linear"]
    if not paged and rng.random() < 0.5:
        out += ["--cache-leftpad", listed([rng.choice((0, 1, 5, 64, 200)) for _ in range(batch)])]
    if new:
        out += ["--append", str(new)]
    if base.rotary.dim:
        dims = [d for d in (16, 32, 64, 96, 128) if d <= base.hdim]
        out += ["--rotary", f"{rng.choice(dims)}:{rng.choice(('half', 'interleaved'))}"]
    return out


def _mask(base: Problem, rng: random.Random) -> list[str]:
    if base.mask.kind is MaskKind.NONE:
        return []
    if base.mask.kind is MaskKind.CAUSAL:
        return ["--causal"]
    left, right = (rng.choice((0, 1, 31, 64, 100, rng.randint(0, 400))) for _ in range(2))
    return [
        "--mask",
        rng.choice((f"window:{left},{right}", f"window:{left},0", f"window:{left},-1", f"window:{left},{right}")),
    ]


def listed(values: Sequence[int]) -> str:
    return ",".join(str(v) for v in values)
