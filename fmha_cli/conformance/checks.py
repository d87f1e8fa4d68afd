"""The checks that every backend must pass."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice

from fmha_cli.conformance.subject import Subject
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.invariance import Invariance, why_unchangeable
from fmha_cli.domain.kernel import parse_kernel
from fmha_cli.domain.protocols import Backend
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.invariance import InvarianceOutcome
from fmha_cli.run.invariance import InvarianceProbe
from fmha_cli.run.loading import load
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run

RUN = 12
"""Problems among those it supports that are built, run and judged."""

TIMED = 3
"""Problems among those it supports that are timed."""

MEASURED = 3
"""Problems among those it supports whose invariances are measured."""


def check_names(subject: Subject) -> None:
    """Names read back as the same kernels. Names and digests are unique. Backend and architecture are correct."""
    seen: dict[str, str] = {}
    for arch in subject.backend.archs():
        kernels = list(subject.backend.kernels(subject.registry.arch(arch)))
        assert kernels, f"no kernel for {arch}, which archs() names"
        for kernel in kernels:
            assert (kernel.backend, kernel.arch) == (subject.backend.name, arch), kernel.name
            assert parse_kernel(kernel.name, {subject.backend.name: subject.backend.algorithm}) == kernel
            assert kernel.digest not in seen, f"{kernel.name} has the digest of {seen[kernel.digest]}"
            seen[kernel.digest] = kernel.name


def check_rules(subject: Subject) -> None:
    """Rule ids are unique, and every rule has a text."""
    rules = subject.backend.rules()
    assert len({r.id for r in rules}) == len(rules)
    assert all(rule.text for rule in rules)


def check_registration(subject: Subject) -> None:
    """The registry takes the backend without a fault, and the worker finds it by its entry."""
    assert subject.registry.faults == ()
    assert load(subject.entry, subject.backend.name, Backend).name == subject.backend.name


def check_decisions(subject: Subject) -> None:
    """``decide`` always answers and never raises. A refusal names a rule of the backend. Its kernels are listed."""
    ids = {rule.id for rule in subject.backend.rules()}
    listed = {
        kernel for arch in subject.backend.archs() for kernel in subject.backend.kernels(subject.registry.arch(arch))
    }
    for problem in subject.problems():
        for device in subject.devices:
            decisions = list(subject.backend.decide(problem, device))
            assert decisions, f"no decision for {problem.repro()}"
            for decision in decisions:
                assert decision.kernel is None or decision.kernel in listed, f"{decision.kernel} is not listed"
                if isinstance(decision, Unsupported):
                    assert {r.id for r in decision.reasons} <= ids, f"a reason without a rule: {decision.reasons}"
                    assert all(r.text for r in decision.reasons)
                else:
                    plan = subject.backend.plan(problem, decision.kernel, device)
                    assert plan.main == decision.kernel
                    assert plan.problem == problem


def check_claims(subject: Subject) -> None:
    """A seeded sample of what it supports passes under all fills, with poison, guards, gaps and repeats."""
    supported = [
        problem
        for problem in subject.problems()
        if any(isinstance(d, Supported) for device in subject.devices for d in subject.backend.decide(problem, device))
    ]
    assert supported, "it supports none of the problems"
    sample = random.Random(subject.seed).sample(supported, min(RUN, len(supported)))
    request = Request(
        command=Command.VALIDATE, backend=subject.backend.name, fills=FILLS, cache_root=str(subject.cache_root)
    )
    found = probe_backends(subject.registry, [subject.backend])[subject.backend.name]
    if not found.devices:
        return  # nothing here can run it; its decisions and names were checked
    bad = [
        r
        for r in Run(sample, request, subject.registry).records()
        if r.verdict not in (Verdict.PASSED, Verdict.MISTRUSTED)
    ]
    assert not bad, "\n".join(f"{r.verdict} {r.repro} {'; '.join(r.notes)}" for r in bad)


def check_times(subject: Subject) -> None:
    """Launches in a row leave right outputs, whatever the data, and take a time that the host's clock does not contradict."""
    found = probe_backends(subject.registry, [subject.backend])[subject.backend.name]
    real = [device for device in found.devices if not device.emulated]
    supported = (
        problem
        for problem in subject.problems()
        if any(isinstance(d, Supported) for device in real for d in subject.backend.decide(problem, device))
    )
    timed = list(islice(supported, TIMED))
    request = Request(
        command=Command.BENCH,
        backend=subject.backend.name,
        budget_s=0.01,
        peak="spec",
        cache_root=str(subject.cache_root),
    )
    records = Run(timed, request, subject.registry).records() if timed else ()
    bad = [r for r in records if r.verdict not in (Verdict.PASSED, Verdict.MISTRUSTED) or r.reasons]
    why = [f"{r.verdict} {r.repro} {'; '.join([*r.notes, *(reason.text for reason in r.reasons)])}" for r in bad]
    assert not bad, "\n".join(why)


def check_invariances(subject: Subject) -> None:
    """What its kernels promise holds, bit for bit, and every property of ``fmha validate --invariant`` has a row, also
    those of a backend that promises nothing."""
    request = Request(backend=subject.backend.name, peak="spec", cache_root=str(subject.cache_root))
    with InvarianceProbe(request, subject.registry) as probe:
        devices = probe.found[subject.backend.name].devices
        supported = (
            problem
            for problem in subject.problems()
            if any(
                isinstance(decision, Supported) and why_unchangeable(Invariance.BATCH, problem, device) is None
                for device in devices
                for decision in subject.backend.decide(problem, device)
            )
        )
        rows = [list(probe.rows_of(problem)) for problem in islice(supported, MEASURED)]
    assert all([row.property for row in found] == list(Invariance) for found in rows)
    outcomes = (InvarianceOutcome.BROKEN, InvarianceOutcome.FAILED, InvarianceOutcome.NOT_RUN)
    bad = [row for found in rows for row in found if row.outcome in outcomes]
    assert not bad, "\n".join(f"{r.outcome} {r.property} {r.repro} {r.change} {r.difference} {r.notes}" for r in bad)


CHECKS: tuple[Callable[[Subject], None], ...] = (
    check_names,
    check_rules,
    check_registration,
    check_decisions,
    check_claims,
    check_times,
    check_invariances,
)
"""All conformance tests. Each raises AssertionError with the reason when the backend fails it."""
