"""Random problems for a given set of kernels. They vary everything that kernels take at run time.

A seed determines sizes, head counts, layouts, window bounds, caps, probabilities, cache lengths, paddings, pages,
splits and positions. A draw whose kernels are not in the set is repeated, so no further kernel needs a build.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem
from nvidia_check.shards import Wanted, key_of

SEED = 20
TRIES = 200
"""Draws for one problem before its base is given up for another."""


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
