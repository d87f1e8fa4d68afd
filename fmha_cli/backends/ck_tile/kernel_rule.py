"""``KernelRule``: a rule that reads a kernel and its architecture's facts alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from fmha_cli.arch import ArchSpec, load_arch
from fmha_cli.backends.ck_tile.condition import algorithm_of
from fmha_cli.backends.ck_tile.revisions import arch_class
from fmha_cli.device import DeviceFacts
from fmha_cli.errors import FmhaError
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import Reason, Rule, Severity

EVERY = tuple(Family)


class Stage(StrEnum):
    """Who refuses by the rule."""

    GENERATOR = "generator"
    """Upstream's example generator, inside its loops: the enumerator prunes with it."""
    TABLE = "table"
    """The tables themselves, or upstream's other rule sets: what is enumerated meets it already."""
    TARGET = "target"
    """Nobody upstream: the generator emits the kernel, and it cannot be used on the architecture."""


@dataclass(frozen=True)
class Refusal:
    """What a rule found: text with the values, and the change that would help."""

    text: str
    hint: str | None = None


@dataclass(frozen=True)
class KernelRule:
    """A rule over kernels.

    Attributes:
        check: None when the kernel meets the rule. Called for kernels of ``families`` alone.
        reads: the fields of signature and algorithm that ``check`` reads; besides them family, arch and its facts.
        number: upstream's number of the rule (``11``, ``T7``, ``X2``), empty where it has none.
    """

    id: str
    text: str
    check: Callable[[KernelSpec, ArchSpec], Refusal | None]
    reads: tuple[str, ...]
    families: tuple[Family, ...]
    stage: Stage
    help: str
    source: str
    number: str = ""
    severity: Severity = Severity.KIND

    def against(self, kernel: KernelSpec, arch: ArchSpec) -> Reason | None:
        """The Reason against a kernel, None where it meets the rule."""
        if kernel.family not in self.families:
            return None
        found = self.check(kernel, arch)
        return None if found is None else Reason(self.id, found.text, found.hint, self.severity)

    def rule(self) -> Rule:
        """The rule as one of the tool's one table; problem and device are not read."""

        def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
            arch = arch_facts(kernel.arch)
            return None if arch is None else self.against(kernel, arch)

        source = f"{self.source} ({self.number})" if self.number else self.source
        return Rule(self.id, self.text, check, self.help, source)


@cache
def arch_facts(name: str) -> ArchSpec | None:
    """The facts of an architecture, None where there are none."""
    try:
        return load_arch(name)
    except FmhaError:
        return None


@cache
def _class_name(arch: str, family: Family, revision: str) -> str:
    facts = arch_facts(arch)
    found = arch_class(facts, family, revision) if facts else None
    return found.name if found else ""


def class_of(kernel: KernelSpec) -> str:
    """The name of the class under which upstream files a kernel's architecture, empty where it has none."""
    return _class_name(kernel.arch, kernel.family, algorithm_of(kernel).rev)


def cdna_class(kernel: KernelSpec) -> bool:
    """Whether upstream's gfx9 conditions hold for a kernel (``factory.arch.name.startswith("gfx9")``)."""
    return class_of(kernel).startswith("gfx9")
