"""The rules of a GPU backend: a kernel's needs of a problem, and which kernels exist."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields
from functools import cache, cached_property
from operator import attrgetter
from typing import Generic, TypeVar

from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Check as RuleCheck
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity
from fmha_cli.domain.signature import Signature

S = TypeVar("S")
KernelCheck = Callable[[KernelSpec, ArchSpec], Refusal | None]
FORWARD = (Family.FWD, Family.FWD_PAGEDKV, Family.BATCH_PREFILL, Family.FWD_SPLITKV)
BACKWARD = (Family.BWD_DQ_DK_DV,)
MAIN = (*FORWARD, *BACKWARD)
"""Families whose kernels are candidates. The other families are stages around them."""
_SIGNATURE = frozenset(field.name for field in fields(Signature))


@cache
def fields_of(*paths: str) -> Callable[[KernelSpec], Hashable]:
    """Returns fields of a kernel by their paths. Equal paths give the same function, which the index calls once."""
    return attrgetter(*paths)


def the_family(kernel: KernelSpec) -> Hashable:
    """The ``reads`` of a condition that treats all kernels of a family and architecture alike."""
    return None


def the_kernel(kernel: KernelSpec) -> Hashable:
    """The key of a rule that reads all of a kernel."""
    return id(kernel)


@dataclass(frozen=True, kw_only=True)
class ConditionRow:
    """The text and the properties of a rule.

    Attributes:
        text: the rule in general.
        help: the reason for the rule.
        source: its place in upstream, and upstream's number for it.
        number: upstream's number for it (``11``, ``T7``, ``X2``); empty if upstream has none.
        families: the families that it concerns. Its check is called only for their kernels.
        reads: the fields of signature and algorithm that its check reads in addition to family and arch; ``*`` = all.
        stage: who applies a rule over kernels: upstream's ``generator``, its ``table``, or only this tool for a ``target``; empty for a rule
            about problems.
        form: the rule checks the form of a kernel. The other rules over kernels rely on the form, so they are checked
            only for kernels that meet every rule of form.
    """

    id: str
    text: str
    help: str
    source: str
    number: str = ""
    families: tuple[Family, ...] = ()
    reads: tuple[str, ...] = ()
    stage: str = ""
    form: bool = False
    severity: Severity = Severity.KIND

    @cached_property
    def key(self) -> Callable[[KernelSpec], Hashable]:
        """The parts of a kernel that the check reads. It runs once for all kernels of a family with equal keys."""
        if "*" in self.reads:
            return the_kernel
        paths = [f"{'signature' if name in _SIGNATURE else 'algorithm'}.{name}" for name in self.reads]
        return fields_of(*paths) if paths else the_family

    def rule_with(self, check: RuleCheck) -> Rule:
        """A rule of the tool's one table."""
        return Rule(self.id, self.text, check, self.help, self.source, self.severity)


@dataclass(frozen=True, kw_only=True)
class Condition(ConditionRow, Generic[S]):
    """A requirement of the kernels of some families on a problem. ``S`` is the backend's view of a problem on a device.

    Attributes:
        check: returns None when the kernel may serve.
    """

    check: Callable[[S, KernelSpec], Refusal | None]

    def against(self, situation: S, kernel: KernelSpec) -> Reason | None:
        """The Reason against a kernel; None when it may serve."""
        refusal = self._judge(situation, kernel)
        return None if refusal is None else refusal.by(self.id, self.severity)

    def rule(self, situation_of: Callable[[Problem, DeviceFacts], S]) -> Rule:
        """The condition as a rule of the tool's one table."""

        def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
            return self._judge(situation_of(problem, device), kernel)

        return self.rule_with(check)

    def _judge(self, situation: S, kernel: KernelSpec) -> Refusal | None:
        return self.check(situation, kernel) if kernel.family in self.families else None


def conditions_for(family: Family, conditions: Iterable[Condition[S]]) -> tuple[Condition[S], ...]:
    """The conditions that apply to a family."""
    return tuple(c for c in conditions if family in c.families)


@dataclass(frozen=True, kw_only=True)
class KernelRule(ConditionRow):
    """A rule about which kernels exist. It reads only the kernel and its architecture's facts.

    Attributes:
        check: returns None when the kernel meets the rule.
    """

    check: KernelCheck

    def found(self, kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
        """The Refusal of a kernel; None when it meets the rule or is of another family."""
        return self.check(kernel, arch) if kernel.family in self.families else None

    def against(self, kernel: KernelSpec, arch: ArchSpec) -> Reason | None:
        """The Reason against a kernel; None when it meets the rule or is of another family."""
        refusal = self.found(kernel, arch)
        return None if refusal is None else refusal.by(self.id, self.severity)


@dataclass(frozen=True)
class KernelRules:
    """The kernel rules of a backend.

    Attributes:
        facts_of: returns the facts of an architecture that the backend may have kernels for, and None for any other.
        no_arch: returns the Reason against a kernel for any other architecture. Its id is that of a rule of the table.
    """

    table: tuple[KernelRule, ...]
    facts_of: Callable[[str], ArchSpec | None]
    no_arch: Callable[[KernelSpec], Reason]

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        """Every Reason why a kernel does not exist, in the order of the table; empty for a kernel that does."""
        arch = self.facts_of(kernel.arch)
        if arch is None:
            return (self.no_arch(kernel),)
        form = tuple(reason for rule in self.table if rule.form and (reason := rule.against(kernel, arch)))
        if form:
            return form
        return tuple(reason for rule in self.table if not rule.form and (reason := rule.against(kernel, arch)))

    def rules(self) -> tuple[Rule, ...]:
        """The table as rules of the tool's one table. They do not read the problem or the device."""
        return tuple(self._rule(rule) for rule in self.table)

    def _rule(self, rule: KernelRule) -> Rule:
        def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
            arch = self.facts_of(kernel.arch)
            if arch is None:
                reason = self.no_arch(kernel)
                return Refusal(reason.text, reason.hint) if reason.id == rule.id else None
            if not rule.form and any(r.found(kernel, arch) for r in self.table if r.form):
                return None
            return rule.found(kernel, arch)

        return rule.rule_with(check)


@cache
def known_arch(name: str) -> ArchSpec | None:
    """The facts of an architecture; None where there are none."""
    try:
        return load_arch(name)
    except FmhaError:
        return None


def next_multiple(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``value``."""
    return -(-value // step) * step
