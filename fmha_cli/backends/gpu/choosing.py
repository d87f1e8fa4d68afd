"""The common part of CUDA backends' choice of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from fmha_cli.backends.gpu.conditions import Condition, conditions_for
from fmha_cli.backends.gpu.index import FamilyIndex, IndexHost, Question, core_question, index_of
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Rule
from fmha_cli.domain.signature import Signature

S = TypeVar("S")
H = TypeVar("H", bound=IndexHost)


def nearest_hdim(problem: Problem, case: Signature) -> tuple[int, ...]:
    """A ``Distance``: the problem's own element type first, then head dims from just large enough to too small."""
    largest = max(problem.hdim, problem.hdim_v)
    return int(case.dtype is not problem.dtype), max(largest - case.hdim, 0), case.hdim


def indexes(
    kernels: Callable[[str, Family], Iterable[KernelSpec]], conditions: Sequence[Condition[H]], rules: Sequence[Rule]
) -> Callable[[str, Family], FamilyIndex[H]]:
    """Returns the index of a family's kernels for an architecture, made once. It is empty where there are none.

    Args:
        kernels: returns the kernels of a family for an architecture.
        conditions: checked in addition to ``rules``, which are rules of the core.
    """

    @lru_cache(maxsize=64)
    def index(arch: str, family: Family) -> FamilyIndex[H]:
        own = (Question(condition.against, condition.key) for condition in conditions_for(family, conditions))
        return index_of(kernels(arch, family), (*own, *map(core_question, rules)))

    return index
