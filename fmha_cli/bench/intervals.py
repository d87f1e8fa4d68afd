"""Between tuned seqlens: each tuned length stands for the lengths that are nearer to it than to its neighbours."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.problem import Problem

_LENGTHS = ("seqlen_q", "seqlen_k")
_LISTS = ("seqlens_q", "seqlens_k", "cache_seqlens", "cache_leftpad", "cache_batch_idx")


@dataclass(frozen=True)
class LengthPlace:
    """Where a problem lies among the problems that differ from it in one length only.

    Attributes:
        family: digest of everything else. Lengths of single sequences are part of it, so such problems are alone.
        at: the length.
    """

    family: str
    at: int


def place_of(problem: Problem) -> LengthPlace:
    """The place of a problem. As many queries as keys grow together; otherwise the keys do, with a fixed number of
    queries.
    """
    told = problem.to_dict()
    rest = {name: value for name, value in told.items() if name not in _LENGTHS}
    square = problem.seqlen_q == problem.seqlen_k
    axis = "both" if square else f"keys beside {problem.seqlen_q} queries"
    alone = [told[name] for name in _LENGTHS] if any(name in told for name in _LISTS) else None
    return LengthPlace(digest_of([rest, axis, alone]), problem.seqlen_k)


def bounds(tuned: Sequence[int]) -> tuple[int, ...]:
    """The bounds between neighbours of ascending lengths; each belongs to the longer one. None is beyond either."""
    return tuple((low + high + 1) // 2 for low, high in pairwise(tuned))


def owner(tuned: Sequence[int], at: int) -> int | None:
    """The number of the tuned length that stands for a length; None outside of the tuned ones.

    Args:
        tuned: ascending, each once.
    """
    if not tuned or not tuned[0] <= at <= tuned[-1]:
        return None
    return bisect_right(bounds(tuned), at)
