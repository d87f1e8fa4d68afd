"""For a backend whose kernels are those of a library: its rules against the library's own answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from fmha_cli.conformance.subject import Subject
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.domain.rules import CORE_RULES, reasons_against
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run

RIGHT = (Verdict.PASSED, Verdict.MISTRUSTED)
"""Verdicts of a row whose outputs are right. A pass that means little (one visible key, say) is MISTRUSTED."""


def own_rules(backend: Backend) -> frozenset[str]:
    """The ids of the rules that are the backend's own, not the ones that follow from a signature."""
    return frozenset({rule.id for rule in backend.rules()} - {rule.id for rule in CORE_RULES})


def judged(
    subject: Subject,
    problems: Iterable[Problem],
    *,
    fills: tuple[str, ...] = FILLS[:2],
    all_kernels: bool = True,
    repeats: bool = True,
    threads: int = 0,
    device: str | None = None,
) -> tuple[Record, ...]:
    """A record for every kernel that claims a problem, and one for every problem that none claims.

    Args:
        all_kernels: whether every such kernel runs, or the chosen one.
        repeats: whether a row is repeated on other data and must be deterministic (as ``fmha validate`` does), or runs once.
        threads: of every row; 0 = all allowed.
        device: where they run (``emu:ARCH`` with an emulator among ``Subject.beside``); None for the backend's own choice.
    """
    request = Request(
        command=Command.VALIDATE if repeats else Command.RUN,
        backend=subject.backend.name,
        all_kernels=all_kernels,
        fills=fills,
        threads=threads,
        device=device,
        cache_root=str(subject.cache_root),
    )
    return Run(list(problems), request, subject.registry).records()


def told(records: Iterable[Record]) -> str:
    """Records as lines, for the message of a check that failed."""
    rows = ((r, r.kernel.name if r.kernel else "no kernel", "; ".join(r.notes)) for r in records)
    return "\n".join(f"{r.verdict} {r.repro} {kernel} {notes}" for r, kernel, notes in rows)


class _Insisting:
    """A backend that runs one kernel for some problems, whatever its rules say."""

    def __init__(self, backend: Backend, kernel: KernelSpec) -> None:
        self._backend, self._kernel = backend, kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterator[Supported]:
        yield Supported(self._kernel, (0,))


def insisted(
    subject: Subject, pairs: Iterable[tuple[Problem, KernelSpec]], fill: str = FILLS[0]
) -> Iterator[tuple[Problem, KernelSpec, Record]]:
    """The library's own answers: run problems by kernels that the rules refuse, without asking the rules.

    A record that did not PASS bears the refusal out: the library refuses too (its text is in the notes), crashes, or computes
    something else. One that PASSED shows a refusal that the library does not need.
    """
    groups: dict[KernelSpec, list[Problem]] = {}
    for problem, kernel in pairs:
        groups.setdefault(kernel, []).append(problem)
    for kernel, problems in groups.items():
        forced = replace(subject, backend=cast(Backend, _Insisting(subject.backend, kernel)))
        root, name = str(subject.cache_root), subject.backend.name
        request = Request(command=Command.RUN, backend=name, fills=(fill,), cache_root=root)
        records = Run(problems, request, forced.registry).records()
        yield from ((problem, kernel, record) for problem, record in zip(problems, records, strict=True))


def borne_out(subject: Subject, problem: Problem, kernel: KernelSpec) -> bool:
    """Whether the library refuses a problem, crashes, or computes something else under some fill; see ``insisted``."""
    found = (insisted(subject, [(problem, kernel)], fill) for fill in FILLS)
    return any(record.verdict not in RIGHT for records in found for _, _, record in records)


def check_refused(subject: Subject, rule: str, problem: Problem, kernel: KernelSpec) -> None:
    """A rule alone refuses the problem."""
    found = {reason.id for reason in reasons_against(subject.backend.rules(), problem, kernel, subject.devices[0])}
    assert found == {rule}, f"{rule} alone should refuse {problem.repro()}, not {sorted(found)}"


def check_refusal(subject: Subject, rule: str, problem: Problem, kernel: KernelSpec) -> None:
    """A rule alone refuses the problem, and the library bears it out."""
    check_refused(subject, rule, problem, kernel)
    assert borne_out(subject, problem, kernel), (
        f"{rule} refuses {problem.repro()}, which {kernel.name} computes rightly"
    )


@dataclass(frozen=True)
class Agreement:
    """What ``check_agreement`` saw: how many problems some kernel computed, and the names of the kernels that did."""

    accepted: int
    kernels: frozenset[str]


def check_agreement(subject: Subject, problems: Iterable[Problem], needless: Mapping[str, str]) -> Agreement:
    """Accepted problems pass, and problems that the backend's own rules refuse do not pass when they are run anyway.

    Args:
        needless: id -> why this rule also refuses problems that the library computes rightly.
    """
    asked = list(problems)
    records = judged(subject, asked)
    ran = [record for record in records if record.kernel is not None]
    wrong = [record for record in ran if record.verdict not in RIGHT]
    assert not wrong, told(wrong)
    assert all(record.reasons for record in records if record.kernel is None)
    own, refused = own_rules(subject.backend), dict[tuple[Problem, KernelSpec], frozenset[str]]()
    for problem in asked:
        for decision in subject.backend.decide(problem, subject.devices[0]):
            if isinstance(decision, Unsupported) and decision.kernel is not None:
                ids = frozenset(reason.id for reason in decision.reasons)
                refused |= {(problem, decision.kernel): ids} if ids <= own else {}
    idle = [
        f"{sorted(refused[problem, kernel])} {problem.repro()}"
        for problem, kernel, record in insisted(subject, refused)
        if record.verdict is Verdict.PASSED and not refused[problem, kernel] <= needless.keys()
    ]
    assert not idle, "refused, and computed rightly:\n" + "\n".join(idle)
    return Agreement(len({r.repro for r in ran}), frozenset(r.kernel.name for r in ran if r.kernel is not None))
