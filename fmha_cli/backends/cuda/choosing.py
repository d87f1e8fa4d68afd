"""What CUDA backends share when they choose a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from fmha_cli.backends.gpu.conditions import Condition, conditions_for
from fmha_cli.backends.gpu.index import FamilyIndex, Host, Question, core_questions, index_of
from fmha_cli.backends.gpu.rule_rows import conditions, rule_rows
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Refusal, Rule
from fmha_cli.domain.signature import Signature

S = TypeVar("S")
H = TypeVar("H", bound=Host)
Found = Mapping[str, object] | None
Finder = Callable[[S, KernelSpec], Found]
"""Returns None where a kernel may serve, else the values for the places in the texts of the refusal."""


def nearest_hdim(problem: Problem, case: Signature) -> tuple[int, ...]:
    """A ``Distance``: the problem's own element type first, then head dims from just large enough to too small."""
    largest = max(problem.hdim, problem.hdim_v)
    return int(case.dtype is not problem.dtype), max(largest - case.hdim, 0), case.hdim


def told(wrong: object, **values: object) -> Found:
    """The values where something is wrong, else None."""
    return values if wrong else None


def indexes(
    kernels: Callable[[str, Family], Iterable[KernelSpec]], conditions: Sequence[Condition[H]], rules: Sequence[Rule]
) -> Callable[[str, Family], FamilyIndex[H]]:
    """Returns the index of a family's kernels for an architecture, made once. It is empty where there are none.

    Args:
        kernels: returns the kernels of a family for an architecture.
        conditions: asked besides ``rules``, which are rules of the core.
    """

    @lru_cache(maxsize=64)
    def index(arch: str, family: Family) -> FamilyIndex[H]:
        own = (Question(condition.against, condition.key) for condition in conditions_for(family, conditions))
        return index_of(kernels(arch, family), (*own, *core_questions(rules)))

    return index


def told_conditions(backend: str, finders: Mapping[str, Finder[S]]) -> tuple[Condition[S], ...]:
    """The conditions of a backend whose rows hold the texts of their refusals: ``says`` and, if something helps, ``hint``."""
    return conditions(backend, {id: _telling(rule_rows(backend)[id], find) for id, find in finders.items()})


def _telling(row: Mapping[str, Any], find: Finder[S]) -> Callable[[S, KernelSpec], Refusal | None]:
    def check(situation: S, kernel: KernelSpec) -> Refusal | None:
        found = find(situation, kernel)
        if found is None:
            return None
        return Refusal(row["says"].format(**found), row["hint"].format(**found) if "hint" in row else None)

    return check
