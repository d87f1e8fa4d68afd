"""The published conformance tests: what every backend must do. A plugin's own tests run them::

    import pytest
    from fmha_cli import conformance
    from my_plugin import MyBackend

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(conformance.Subject(MyBackend(), entry="my_plugin", cache_root=tmp_path / "cache"))

Claims drive tests: what the backend accepts must run and pass, what it refuses must carry a Reason.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.kernel import KernelSpec, parse_kernel
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.walk.probing import probe_backends
from fmha_cli.walk.request import Command, Request
from fmha_cli.walk.run import run_points

ASKED = 200
"""Problems that the backend is asked about."""

RUN = 12
"""Problems among those it supports that are built, run and judged."""


TIMED = 3
"""Problems among those it supports that are timed."""


@dataclass(frozen=True)
class Subject:
    """The backend under test.

    Attributes:
        entry: where the worker finds it: ``module`` or ``module:attribute``.
        cache_root: a private folder for built kernels (created with mode 0700).
        seed: seed of the drawn problems.
        dropout_streams: what the plugin's ``fmha_register_dropout_streams`` returns.
        arch_specs: what the plugin's ``fmha_register_arch_specs`` returns.
    """

    backend: Backend
    entry: str
    cache_root: Path
    seed: int = 0
    dropout_streams: Mapping[str, Any] = field(default_factory=dict)
    arch_specs: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def registry(self) -> Registry:
        """A registry with this backend alone."""
        module = SimpleNamespace(
            fmha_register_backends=hookimpl(lambda: [self.backend]),
            fmha_register_dropout_streams=hookimpl(lambda: self.dropout_streams),
            fmha_register_arch_specs=hookimpl(lambda: self.arch_specs),
        )
        plugin = SimpleNamespace(name="subject", value=self.entry, dist=None, load=lambda: module)
        return Registry({}, lambda: [cast(Any, plugin)])

    @cached_property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """Its devices on this machine, or an invented one for each of its architectures."""
        found = self.backend.probe() if self.backend.probes_in_parent else None
        made_up = tuple(DeviceFacts.of_arch(arch) for arch in self.backend.archs())
        return found.devices if found is not None and found.devices else made_up

    def problems(self) -> Iterator[Problem]:
        """Small problems of every kind, the same for the same seed."""
        draw = random.Random(self.seed)
        count = 0
        while count < ASKED:
            try:
                yield Problem.from_cli(_line(draw, plain=count % 2 == 0))
                count += 1
            except ImpossibleProblem:
                continue


def _line(draw: random.Random, *, plain: bool) -> list[str]:
    kv_heads = draw.choice([1, 2])
    words = ["-b", draw.choice("12"), "-H", str(kv_heads * draw.choice([1, 3])), "--kv-heads", str(kv_heads)]
    words += ["-s", str(draw.choice([1, 7, 33, 64])), "--seqlen-k", str(draw.choice([1, 5, 33, 96]))]
    words += ["-d", str(draw.choice([8, 24, 64])), "--hdim-v", str(draw.choice([8, 40, 64]))]
    words += ["--dtype", draw.choice(["fp32", "fp16", "bf16"])]
    words += ["--layout", draw.choice(["bhsd", "bshd", "bhsd:bshd"])]
    words += draw.choice([[], ["--causal"], ["--mask", "causal-tl"]]) + draw.choice([[], ["--lse"]])
    if plain:
        return words
    more = [
        ["--mask", "window:9,3", "--sink", "2"], ["--mask", "generic:0,4"], ["--softcap", "5"], ["--dropout", "0.3"],
        ["--bias", "elementwise:bhss"], ["--alibi"], ["--sink-logits", "filled"], ["--kv-cache", "paged:16"],
        ["--kv-cache", "linear", "--append", "1"], ["--direction", "bwd"], ["--dtype", "fp8_e4m3"], ["--splits", "3"],
        ["--qscale", "tensor"], ["--deterministic"],
    ]  # fmt: skip
    return words + draw.choice(more)


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
    from fmha_cli.execution.loading import load

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
    outcome = run_points(sample, request, subject.registry)
    bad = [r for r in outcome.records if r.verdict not in (Verdict.PASSED, Verdict.MISTRUSTED)]
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
    records = run_points(timed, request, subject.registry).records if timed else ()
    bad = [r for r in records if r.verdict not in (Verdict.PASSED, Verdict.MISTRUSTED) or r.reasons]
    why = [f"{r.verdict} {r.repro} {'; '.join([*r.notes, *(reason.text for reason in r.reasons)])}" for r in bad]
    assert not bad, "\n".join(why)


def library_problems(seed: int, count: int) -> Iterator[Problem]:
    """Small problems of the kinds that libraries have, for a backend whose kernels are a library's."""
    draw = random.Random(seed)
    while count:
        with suppress(ImpossibleProblem):
            yield Problem.from_cli(_library_line(draw))
            count -= 1


def _library_line(draw: random.Random) -> list[str]:
    kv_heads, rows = draw.choice([1, 2, 3]), draw.choice([1, 1, 5, 7, 33, 64])
    keys = draw.choice([rows, rows, rows, 1, 9, 40, 65])
    hdim = draw.choice([8, 16, 24, 40, 64, 64, 128])
    words = ["-b", draw.choice("112"), "-H", str(kv_heads * draw.choice([1, 1, 2, 4])), "--kv-heads", str(kv_heads)]
    words += ["-s", str(rows), "-d", str(hdim), "--hdim-v", str(draw.choice([hdim, hdim, hdim, 48]))]
    words += ["--dtype", draw.choice(["fp32", "fp32", "fp16", "bf16"])]
    words += ["--layout", draw.choice(["bhsd", "bshd", "bshd", "bhsd:bshd"])]
    words += draw.choice(
        [[], ["--causal"], ["--causal"], ["--mask", "causal-tl"], ["--mask", "window:4,0"], ["--mask", "window:9,3"]]
    )
    cache = ["--kv-cache", "linear", "--cache-seqlens", draw.choice(["1", "9", "40", "40", "12,7"])]
    more = draw.choice(
        [
            [], [], [], [], ["--softcap", "5"], ["--softcap", "5"], ["--sink-logits", "filled"], ["--lse"], ["--alibi"], ["--scale", "0.3"],
            ["--bias", "elementwise"], ["--bias", "elementwise:1hss"], ["--bias", "elementwise:bhss"], ["--sink", "2"],
            cache, [*cache, "--append", str(rows)], [*cache, "--append", str(rows)], [*cache, "--append", "1", "--rotary", "16"],
            [*cache, "--append", str(rows), "--rotary", "16:interleaved"], ["--dropout", "0.3"], ["--direction", "bwd"],
        ]
    )  # fmt: skip
    return [*words, *([] if "--kv-cache" in more else ["--seqlen-k", str(keys)]), *more]


def judged(subject: Subject, problems: Iterable[Problem]) -> tuple[Record, ...]:
    """A record for every kernel that claims a problem, and one for every problem that none claims."""
    request = Request(
        command=Command.VALIDATE,
        backend=subject.backend.name,
        all_kernels=True,
        fills=FILLS[:2],
        cache_root=str(subject.cache_root),
    )
    return run_points(list(problems), request, subject.registry).records


class _Insisting:
    """A backend that is asked to run one kernel for some problems, whatever its rules say."""

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
        records = run_points(problems, request, forced.registry).records
        yield from ((problem, kernel, record) for problem, record in zip(problems, records, strict=True))


def borne_out(subject: Subject, problem: Problem, kernel: KernelSpec) -> bool:
    """Whether the library refuses a problem, crashes, or computes something else under some fill; see ``insisted``."""
    good = (Verdict.PASSED, Verdict.MISTRUSTED)
    found = (insisted(subject, [(problem, kernel)], fill) for fill in FILLS)
    return any(record.verdict not in good for records in found for _, _, record in records)


CHECKS: tuple[Callable[[Subject], None], ...] = (
    check_names,
    check_rules,
    check_registration,
    check_decisions,
    check_claims,
    check_times,
)
"""All conformance tests. Each raises AssertionError with the reason when the backend fails it."""
