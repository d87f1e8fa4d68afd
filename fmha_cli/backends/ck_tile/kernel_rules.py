"""The rules over kernels alone (K200-K299): which kernels exist, and which can be built."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import KernelRule, Stage, arch_facts
from fmha_cli.backends.ck_tile.kernel_rules_config import CONFIG_RULES
from fmha_cli.backends.ck_tile.kernel_rules_families import FAMILY_RULES
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.kernel_rules_target import TARGET_RULES
from fmha_cli.backends.ck_tile.kernel_rules_tiles import TILE_RULES
from fmha_cli.kernel import KernelSpec
from fmha_cli.rules import Reason, Rule, Severity

_TABLES = (CONFIG_RULES, FAMILY_RULES, TILE_RULES, GENERATOR_RULES, TARGET_RULES)
ALL: tuple[KernelRule, ...] = tuple(sorted((rule for table in _TABLES for rule in table), key=lambda rule: rule.id))
KERNEL_RULES: tuple[Rule, ...] = tuple(rule.rule() for rule in ALL)


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why a kernel does not exist or cannot be used on its architecture; empty for a buildable one."""
    return _against(kernel, ALL)


def target_refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """The Reasons against a kernel that upstream's generator emits: those of its architecture."""
    return _against(kernel, tuple(rule for rule in ALL if rule.stage is Stage.TARGET))


def _against(kernel: KernelSpec, rules: tuple[KernelRule, ...]) -> tuple[Reason, ...]:
    arch = arch_facts(kernel.arch)
    if arch is None:
        return (Reason("K201", f"no architecture {kernel.arch}", "fmha archs", Severity.PLACE),)
    return tuple(reason for rule in rules if (reason := rule.against(kernel, arch)))
