"""``KernelRule``: a rule that reads a kernel and its architecture's facts alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from fmha_cli.arch import ArchSpec, load_arch
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.device import DeviceFacts
from fmha_cli.errors import FmhaError
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import Reason, Rule, Severity

SRC = "csrc/flash_attn/src"
FORWARD_LAUNCH = f"{SRC}/flash_fwd_launch_template.h"
BACKWARD_LAUNCH = f"{SRC}/flash_bwd_launch_template.h"
EVERY_FAMILY = tuple(Family)


class Refusal(NamedTuple):
    """What a rule found: text with the values, and the change that would help."""

    text: str
    hint: str | None = None


Check = Callable[[KernelSpec, ArchSpec], Refusal | None]


@dataclass(frozen=True)
class KernelRule:
    """A rule over kernels.

    Attributes:
        check: None when the kernel meets the rule. Called for kernels of ``families`` alone, for architectures that
            FlashAttention has kernels for; and unless ``form``, only for kernels that are well formed.
    """

    id: str
    text: str
    check: Check
    families: tuple[Family, ...]
    help: str
    source: str
    form: bool = False
    severity: Severity = Severity.KIND

    def found(self, kernel: KernelSpec, arch: ArchSpec) -> Reason | None:
        """The Reason against a kernel, None when it meets the rule."""
        if kernel.family not in self.families:
            return None
        refusal = self.check(kernel, arch)
        return None if refusal is None else Reason(self.id, refusal.text, refusal.hint, self.severity)


@cache
def arch_facts(name: str) -> ArchSpec | None:
    """The facts of an architecture that FlashAttention has kernels for, None for any other."""
    try:
        arch = load_arch(name)
    except FmhaError:
        return None
    return arch if NAME in arch.backends else None


def as_rule(rule: KernelRule, refusals: Callable[[KernelSpec], tuple[Reason, ...]]) -> Rule:
    """The rule as one of the tool's one table; problem and device are not read."""

    def check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
        return next((reason for reason in refusals(kernel) if reason.id == rule.id), None)

    return Rule(rule.id, rule.text, check, rule.help, rule.source)
