"""The main kernels of one family, with what each condition reads of them, so that equal kernels are judged once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fmha_cli.arch import load_arch
from fmha_cli.backends.flash_attn.condition import Condition, conditions_for, the_family
from fmha_cli.backends.flash_attn.fit import COMPARED
from fmha_cli.backends.flash_attn.problem_rules import CONDITIONS, SHARED_RULES
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.dtypes import DType
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import SIGNATURE_RULE_IDS, Reason, Rule

_FIELDS = {SIGNATURE_RULE_IDS[field]: field for field in COMPARED}


@dataclass(frozen=True)
class Question:
    """One condition or core rule, put to one kernel that stands for all that it cannot tell from it."""

    condition: Condition | Rule
    kernel: KernelSpec

    def answer(self, situation: Situation) -> Reason | None:
        if isinstance(self.condition, Rule):
            return self.condition.check(situation.problem, self.kernel, situation.device)
        return self.condition.check(situation, self.kernel)


@dataclass(frozen=True)
class Candidate:
    """One kernel and the numbers of the questions that are its own."""

    kernel: KernelSpec
    questions: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """The candidates of one element type and head dim."""

    dtype: DType
    hdim: int
    candidates: tuple[Candidate, ...]

    def distance(self, problem: Problem) -> tuple[int, int, int]:
        """How far a problem is from the case, smallest first: its element type, then head dims from just large
        enough to too small."""
        return int(self.dtype is not problem.dtype), max(problem.hdim - self.hdim, 0), self.hdim


@dataclass(frozen=True)
class FamilyIndex:
    """The candidates of one family on one architecture, and every question that may be asked about them."""

    cases: tuple[Case, ...]
    questions: tuple[Question, ...]

    def answers(self, situation: Situation) -> tuple[Reason | None, ...]:
        """The answer to every question, each found once."""
        return tuple(question.answer(situation) for question in self.questions)


@lru_cache(maxsize=64)
def family_index(arch: str, family: Family) -> FamilyIndex:
    """The index of a family's kernels; empty where the architecture has none."""
    from fmha_cli.backends.flash_attn.catalogue import family_kernels

    return index_of(family, family_kernels(load_arch(arch), family))


def index_of(family: Family, kernels: Iterable[KernelSpec]) -> FamilyIndex:
    """Group kernels by what conditions read of them."""
    conditions: Sequence[Condition | Rule] = (*conditions_for(family, CONDITIONS), *SHARED_RULES)
    numbers: dict[object, int] = {}
    questions: list[Question] = []
    cases: dict[tuple[DType, int], list[Candidate]] = {}
    for kernel in kernels:
        own = []
        for place, condition in enumerate(conditions):
            number = numbers.setdefault((place, _read(condition, kernel)), len(questions))
            if number == len(questions):
                questions.append(Question(condition, kernel))
            own.append(number)
        s = kernel.signature
        cases.setdefault((s.dtype, s.hdim), []).append(Candidate(kernel, tuple(own)))
    made = tuple(Case(dtype, hdim, tuple(inside)) for (dtype, hdim), inside in cases.items())
    return FamilyIndex(made, tuple(questions))


def _read(condition: Condition | Rule, kernel: KernelSpec) -> object:
    if isinstance(condition, Condition):
        return condition.reads(kernel)
    return getattr(kernel.signature, _FIELDS[condition.id]) if condition.id in _FIELDS else the_family(kernel)
