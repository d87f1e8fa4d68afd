"""The rules over kernels alone (K200-K299): which kernels exist, and which can be built."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import KernelRule, arch_facts
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.kernel_rules_target import TARGET_RULES
from fmha_cli.kernel import KernelSpec
from fmha_cli.rules import Reason, Rule

ALL: tuple[KernelRule, ...] = tuple(sorted((*GENERATOR_RULES, *TARGET_RULES), key=lambda rule: rule.id))
KERNEL_RULES: tuple[Rule, ...] = tuple(rule.rule() for rule in ALL)


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why a kernel does not exist or cannot be used on its architecture; empty for a buildable one."""
    arch = arch_facts(kernel.arch)
    if arch is None:
        return ()
    return tuple(reason for rule in ALL if (reason := rule.against(kernel, arch)))
