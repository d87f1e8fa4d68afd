"""The candidates of a family, grouped by the fields that each check reads of a kernel, and the loop that decides about
them.

A family has thousands of kernels, and most checks read one or two of their fields. The index runs every check once for
each combination of those fields (a *question*), however many kernels share it.

A backend keeps one index for each architecture and family (:func:`index_of`, cached). For a problem it lists the
indexes that may serve it, in its own order of preference, and passes them to :func:`decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from fmha_cli.backends.gpu.conditions import fields_of, the_family
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule
from fmha_cli.domain.signature import Signature


class IndexHost(Protocol):
    """The least that a backend's view of a problem must offer."""

    @property
    def problem(self) -> Problem: ...
    @property
    def device(self) -> DeviceFacts: ...


@dataclass(frozen=True)
class SmallSituation:
    """A problem on a device: the view of a backend whose host code derives nothing from them."""

    problem: Problem
    device: DeviceFacts


S = TypeVar("S", bound=IndexHost)
Reads = Callable[[KernelSpec], Hashable]
Check = Callable[[S, KernelSpec], Reason | None]
Distance = Callable[[Problem, Signature], tuple[int, ...]]
"""How far a problem is from a head-dim case, smallest first."""
Case = tuple[Hashable, ...]


@dataclass(frozen=True)
class Question(Generic[S]):
    """A check that every candidate must pass.

    Attributes:
        check: returns None when the kernel may serve.
        reads: returns what ``check`` reads of a kernel in addition to its family and architecture.
    """

    check: Check[S]
    reads: Reads


@dataclass(frozen=True)
class IndexedKernel:
    """One kernel.

    Attributes:
        position: the kernel's place among the kernels that the index was made from.
        questions: numbers of the questions about the kernel, in the order of the checks.
    """

    kernel: KernelSpec
    position: int
    questions: tuple[int, ...]


@dataclass(frozen=True)
class FamilyIndex(Generic[S]):
    """The candidates of one family on one architecture.

    Attributes:
        cases: candidates grouped by element types and head dims, in the order of their first kernels.
        questions: every check with one kernel that represents all kernels that look the same to the check.
    """

    cases: tuple[tuple[IndexedKernel, ...], ...]
    questions: tuple[tuple[Check[S], KernelSpec], ...]

    def answers(self, situation: S) -> tuple[Reason | None, ...]:
        """The answer to every question. Each check runs once per question."""
        return tuple(check(situation, kernel) for check, kernel in self.questions)


def index_of(kernels: Iterable[KernelSpec], questions: Sequence[Question[S]]) -> FamilyIndex[S]:
    """Group the kernels of one family and architecture by the fields that the questions read of them."""
    listed = tuple(kernels)
    asked: list[tuple[Check[S], KernelSpec]] = []
    columns = []
    grouped: dict[Reads, tuple[dict[Hashable, KernelSpec], list[int]]] = {}
    for question in questions:
        if question.reads not in grouped:
            read = [question.reads(kernel) for kernel in listed]
            representatives = dict(zip(read, listed, strict=True))
            numbers = dict(zip(representatives, count(), strict=False))
            grouped[question.reads] = representatives, [numbers[value] for value in read]
        representatives, group = grouped[question.reads]
        columns.append([len(asked) + number for number in group])
        asked += [(question.check, kernel) for kernel in representatives.values()]
    own = zip(*columns, strict=True) if columns else repeat(())
    cases: dict[Case, list[IndexedKernel]] = {}
    for position, (kernel, numbers_of) in enumerate(zip(listed, own, strict=False)):
        cases.setdefault(case_of(kernel.signature), []).append(IndexedKernel(kernel, position, numbers_of))
    return FamilyIndex(tuple(tuple(inside) for inside in cases.values()), tuple(asked))


def case_of(signature: Signature) -> Case:
    """Element types and head dims, which upstream dispatch code looks at first."""
    return signature.dtype, signature.dtype_out, signature.hdim, signature.hdim_v


def core_question(rule: Rule) -> Question[Any]:
    """A rule of the core as a question."""

    def check(situation: IndexHost, kernel: KernelSpec) -> Reason | None:
        return rule.against(situation.problem, kernel, situation.device)

    return Question(check, fields_of(*rule.reads) if rule.reads else the_family)


def decisions(
    situation: S,
    backend: str,
    tried: Iterable[tuple[FamilyIndex[S], Callable[[IndexedKernel], Supported]]],
    distance: Distance | None = None,
    nothing: Callable[[DeviceFacts], Reason] | None = None,
) -> Iterator[Decision]:
    """The decision about every candidate, nearest case first.

    Args:
        tried: indexes in the order of preference, each with the function that ranks a candidate that fits.
        distance: the sort key of a case, nearest first; None leaves the candidates in the order of the index's kernels.
        nothing: returns the Reason to give when no index holds a kernel; None gives no decision then.
    """
    found = False
    for index, supported in tried:
        found = found or bool(index.cases)
        answers = index.answers(situation)
        for candidate in _in_order(index, situation.problem, distance):
            reasons = tuple([reason for n in candidate.questions if (reason := answers[n])])
            kernel = candidate.kernel
            yield Unsupported(backend, kernel.arch, kernel, reasons) if reasons else supported(candidate)
    if not found and nothing is not None:
        device = situation.device
        yield Unsupported(backend, device.archs[0] if device.archs else "", None, (nothing(device),))


def _in_order(index: FamilyIndex[S], problem: Problem, distance: Distance | None) -> Iterable[IndexedKernel]:
    if distance is None:
        return sorted((candidate for case in index.cases for candidate in case), key=attrgetter("position"))
    nearest = sorted(index.cases, key=lambda case: distance(problem, case[0].kernel.signature))
    return (candidate for case in nearest for candidate in case)


def families_for(problem: Problem, forward: Sequence[Family], backward: Sequence[Family]) -> tuple[Family, ...]:
    """Families whose kernels are candidates for the direction of a problem that has one."""
    return tuple(backward if problem.direction.backward else forward)
