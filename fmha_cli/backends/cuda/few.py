"""``Few``: the answers of a backend whose kernels are so few that each can be asked about every rule.

A backend with thousands of kernels needs ``gpu.index`` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fmha_cli.backends.cuda.choosing import nearest_hdim
from fmha_cli.backends.cuda.listed import listed_rules
from fmha_cli.backends.gpu.conditions import Condition, KernelRules, known_arch
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import CORE_RULES, Reason, Rule, Severity, reasons_against


@dataclass(frozen=True)
class Few:
    """The kernels of a backend, and what they need of a problem.

    Attributes:
        backend: its name.
        kernels: returns every kernel for an architecture whose facts name the backend.
        ids: of the three rules about kernels; see ``listed_rules``.
        conditions: what the kernels need besides the core's rules. They see the problem alone.
        replaced: ids of the core's rules that the conditions replace.
    """

    backend: str
    kernels: Callable[[str], tuple[KernelSpec, ...]]
    ids: tuple[str, str, str]
    conditions: tuple[Condition[Any], ...]
    replaced: Collection[str] = ()

    @cached_property
    def kernel_rules(self) -> KernelRules:
        return listed_rules(self.backend, self.ids, self.of)

    @cached_property
    def problem_rules(self) -> tuple[Rule, ...]:
        """What every kernel must meet."""
        own = (condition.rule(lambda problem, device: problem) for condition in self.conditions)
        return (*own, *(rule for rule in CORE_RULES if rule.id not in self.replaced))

    def of(self, arch: ArchSpec) -> tuple[KernelSpec, ...]:
        """Every kernel for an architecture; none where its facts do not name the backend."""
        return self.kernels(arch.name) if self.backend in arch.backends else ()

    def decisions(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        """The decision about every kernel for the device's architectures, nearest head dim first."""
        known = (arch for arch in map(known_arch, device.archs) if arch is not None)
        found = sorted((k for arch in known for k in self.of(arch)), key=lambda k: nearest_hdim(problem, k.signature))
        for place, kernel in enumerate(found):
            reasons = tuple(reasons_against(self.problem_rules, problem, kernel, device))
            refused = Unsupported(self.backend, kernel.arch, kernel, reasons) if reasons else None
            yield refused or Supported(kernel, (place,))
        if not found:
            text = f"{self.backend} has no kernels for {', '.join(device.archs) or 'this device'}"
            reason = Reason(self.ids[0], text, "fmha archs", Severity.PLACE)
            yield Unsupported(self.backend, next(iter(device.archs), ""), None, (reason,))
