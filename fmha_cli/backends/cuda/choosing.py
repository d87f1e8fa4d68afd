"""The common part of CUDA backends' choice of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeVar

from fmha_cli.backends.gpu.conditions import Condition, conditions_for
from fmha_cli.backends.gpu.index import FamilyIndex, IndexHost, Question, core_question, index_of
from fmha_cli.backends.gpu.rule_rows import conditions, rule_rows
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Refusal, Rule
from fmha_cli.domain.signature import Signature

S = TypeVar("S")
H = TypeVar("H", bound=IndexHost)
Found = Mapping[str, object] | None
"""The refusal of a kernel by a condition: the values for the places in the texts of the refusal, or None."""
Finder = Callable[[S, KernelSpec], Iterator[tuple[str, Found]]]


def nearest_hdim(problem: Problem, case: Signature) -> tuple[int, ...]:
    """A ``Distance``: the problem's own element type first, then head dims from just large enough to too small."""
    largest = max(problem.hdim, problem.hdim_v)
    return int(case.dtype is not problem.dtype), max(largest - case.hdim, 0), case.hdim


def refuse_if(wrong: object, **values: object) -> Found:
    """The values where something is wrong, else None."""
    return values if wrong else None


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


def make_conditions(backend: str, ids: Iterable[str], find: Finder[S]) -> tuple[Condition[S], ...]:
    """The conditions of a backend whose rows hold the texts of their refusals: ``says`` and, if something helps, ``hint``.

    Args:
        find: yields the refusal of each condition, by the condition's id.
    """

    @lru_cache(maxsize=256)
    def found(situation: S, kernel: KernelSpec) -> Mapping[str, Found]:
        return dict(find(situation, kernel))

    def check(id: str, situation: S, kernel: KernelSpec) -> Refusal | None:
        row, values = rule_rows(backend)[id], found(situation, kernel)[id]
        if values is None:
            return None
        return Refusal(row["says"].format(**values), row["hint"].format(**values) if "hint" in row else None)

    return conditions(backend, {id: partial(check, id) for id in ids})
