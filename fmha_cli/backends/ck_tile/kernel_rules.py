"""The rules over kernels alone (K200-K299): which kernels exist, and which can be built."""

from __future__ import annotations

from collections.abc import Callable

from fmha_cli.arch import ArchSpec
from fmha_cli.backends.ck_tile.kernel_rule import FORM, KernelRule, Stage, arch_facts, no_arch, well_formed
from fmha_cli.backends.ck_tile.kernel_rules_config import CONFIG_RULES
from fmha_cli.backends.ck_tile.kernel_rules_families import FAMILY_RULES
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.kernel_rules_target import TARGET_RULES, concerns
from fmha_cli.backends.ck_tile.kernel_rules_tiles import TILE_RULES
from fmha_cli.backends.ck_tile.tables import SIGNATURE_FIELDS
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.rules import Reason, Rule

_TABLES = (CONFIG_RULES, FAMILY_RULES, TILE_RULES, GENERATOR_RULES, TARGET_RULES)
ALL: tuple[KernelRule, ...] = tuple(sorted((rule for table in _TABLES for rule in table), key=lambda rule: rule.id))
KERNEL_RULES: tuple[Rule, ...] = tuple(rule.rule() for rule in ALL)


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why a kernel does not exist or cannot be used on its architecture; empty for a buildable one."""
    return _against(kernel, ALL)


def target_refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """The Reasons against a kernel that upstream's generator emits: those of its architecture."""
    return _against(kernel, tuple(rule for rule in ALL if rule.stage is Stage.TARGET))


def target_check(arch: ArchSpec, family: Family, revision: str) -> Callable[[KernelSpec], bool]:
    """A quick test whether a kernel that upstream's generator emits can be used on an architecture.

    It asks the rules of the stage ``target``; where a rule reads the algorithm alone, once for each.
    """
    rules = [rule for rule in ALL if rule.stage is Stage.TARGET and family in rule.families]
    once = [rule for rule in rules if not set(rule.reads) & (SIGNATURE_FIELDS | {"*"})]
    each = [rule for rule in rules if rule not in once and concerns(rule, arch, family, revision)]
    verdicts: dict[int, tuple[object, bool]] = {}

    def usable(kernel: KernelSpec) -> bool:
        key = id(kernel.algorithm)
        if key not in verdicts:
            fine = not any(rule.found(kernel, arch) for rule in once)
            verdicts[key] = (kernel.algorithm, fine)  # kept alive, so that the id stays its own
        return verdicts[key][1] and not any(rule.found(kernel, arch) for rule in each)

    return usable


def _against(kernel: KernelSpec, rules: tuple[KernelRule, ...]) -> tuple[Reason, ...]:
    arch = arch_facts(kernel.arch)
    if arch is None:
        return (no_arch(kernel),)
    asked = rules if well_formed(kernel) else [rule for rule in rules if rule.number in FORM]
    return tuple(reason for rule in asked if (reason := rule.found(kernel, arch)))
