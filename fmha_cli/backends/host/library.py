"""``LibraryBackend``: a backend of a Python library that compiles for itself. Its rules decide in the parent, where the library is not
imported; its session imports it in the worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import CPU, Availability, DeviceFacts, State
from fmha_cli.domain.kernel import Algorithm, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Session
from fmha_cli.domain.rules import Check, Rule, Severity
from fmha_cli.toolchain.framework import FrameworkBackend, probe_package

ARCH = "generic"
"""The architecture of its kernels: the library chooses instructions itself."""


@dataclass(kw_only=True)
class LibraryBackend(FrameworkBackend):
    """A backend of one library on the CPU.

    Attributes:
        distribution: the package of the library; what ``pip install`` takes.
        listed: every kernel for an architecture, the one that is taken first in front.
        table: all rules.
        session: ``module:class`` of the session, which the worker alone imports.
        tried: releases with which the rules were compared with the library's own answers, the oldest first.
    """

    name: str
    distribution: str
    algorithm: type[Algorithm]
    listed: Callable[[str], Iterable[KernelSpec]]
    table: tuple[Rule, ...]
    session: str
    probes_in_parent: bool = True
    tried: Sequence[str] = ()

    def probe(self) -> Availability:
        """Whether the library is installed. It is not imported, so this says nothing about whether it works."""
        found = probe_package(self.distribution)
        here = found.state is State.OK
        return replace(found, devices=(DeviceFacts(id=CPU, archs=self.archs()),)) if here else found

    def archs(self) -> tuple[str, ...]:
        return (ARCH,)

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return self.listed(arch.name)

    def rules(self) -> tuple[Rule, ...]:
        return self.table

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        """One decision for each kernel; their order is their rank."""
        yield from self.ranked(self.kernels(load_arch(ARCH)), self.table, problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return Plan(problem, (Stage(kernel),))

    def open(self, device: DeviceFacts) -> Session:
        module, _, name = self.session.partition(":")
        opened: Session = getattr(import_module(module), name)()
        return opened


def rules_from(text: str, checks: Mapping[str, Check]) -> tuple[Rule, ...]:
    """The rules whose texts are in a JSON text: ``{"rules": [{"id", "text", "help", "source", "severity", "reads"}]}``.

    Args:
        checks: of every rule, by its id.

    Raises:
        ValueError: a rule without a check, or a check without a rule.
    """
    rows: Sequence[Mapping[str, Any]] = json.loads(text)["rules"]
    if {row["id"] for row in rows} != set(checks):
        raise ValueError(f"rules {[row['id'] for row in rows]}, checks {list(checks)}")
    return tuple(
        Rule(
            row["id"],
            row["text"],
            checks[row["id"]],
            row["help"],
            row["source"],
            Severity[row.get("severity", "kind").upper()],
            reads=tuple(row.get("reads", ())),
        )
        for row in rows
    )
