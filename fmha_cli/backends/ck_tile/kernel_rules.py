"""The rules over kernels alone (K200-K299): which kernels exist, and which can be built and used on their architecture."""

from __future__ import annotations

from collections.abc import Callable

from fmha_cli.backends.ck_tile.kernel_rule import NO_ARCH, RuleStage, arch_facts
from fmha_cli.backends.ck_tile.kernel_rules_config import CONFIG_RULES
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.ck_tile.tables import SIGNATURE_FIELDS
from fmha_cli.backends.gpu.conditions import KernelRule, KernelRules
from fmha_cli.backends.gpu.known_bad import known_bad
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity


def _matrix(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    """A wave's product must consist of matrix instructions that the architecture has."""
    warp = algorithm_of(kernel).warp
    able = [tuple(shape) for shape in arch.fact("matrix_shapes")]
    for m, n, k in zip(warp[0::3], warp[1::3], warp[2::3], strict=True):
        if (m, n) not in able:
            shapes, kind = ", ".join(f"{a}x{b}" for a, b in able), arch.fact("matrix_kind")
            return Refusal(
                f"a wave's product of {m}x{n}x{k} on {arch.name}, which has {kind} of {shapes}", "a CDNA arch"
            )
    return None


def _known(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    found = next((bad for bad in known_bad(NAME) if bad.effect == "refused" and bad.meets(kernel)), None)
    return None if found is None else Refusal(f"known to be bad: {found.what} ({found.link})")


def concerns(rule: KernelRule, arch: ArchSpec, family: Family, revision: str) -> bool:
    """Whether a rule may refuse any kernel of a family: false where no report concerns the family."""
    reports = (bad for bad in known_bad(NAME) if bad.effect == "refused")
    return rule.check is not _known or any(bad.holds_for(arch.name, family, revision) for bad in reports)


TARGET_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K290": _matrix,
        "K291": _known,
    },
)


_TABLES = (CONFIG_RULES, GENERATOR_RULES, TARGET_RULES)
ALL: tuple[KernelRule, ...] = tuple(sorted((rule for table in _TABLES for rule in table), key=lambda rule: rule.id))


def _no_arch(kernel: KernelSpec) -> Reason:
    return Reason(NO_ARCH, f"{kernel.arch} is not a known AMD architecture", "fmha archs", Severity.PLACE)


_RULES = KernelRules(ALL, arch_facts, _no_arch)
TARGET_STAGE = tuple(rule for rule in ALL if rule.stage == RuleStage.TARGET)
"""Rules that may refuse kernels that upstream's generator emits."""
KERNEL_RULES: tuple[Rule, ...] = _RULES.rules()


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why a kernel does not exist or cannot be used on its architecture; empty if it can be built."""
    return _RULES.refusals(kernel)


def target_rules(arch: ArchSpec, family: Family, revision: str) -> list[KernelRule]:
    """Rules that may refuse kernels of a family which upstream's generator emits."""
    return [r for r in TARGET_STAGE if family in r.families and concerns(r, arch, family, revision)]


def target_check(arch: ArchSpec, family: Family, revision: str) -> Callable[[KernelSpec], bool]:
    """A quick test of whether a kernel that upstream's generator emits can be used on an architecture.

    It applies the rules of the stage ``target``. A rule that reads only the algorithm is applied once per algorithm.
    """
    rules = target_rules(arch, family, revision)
    once = [rule for rule in rules if not set(rule.reads) & (SIGNATURE_FIELDS | {"*"})]
    each = [rule for rule in rules if rule not in once]
    verdicts: dict[int, tuple[object, bool]] = {}

    def usable(kernel: KernelSpec) -> bool:
        key = id(kernel.algorithm)
        if key not in verdicts:
            fine = not any(rule.found(kernel, arch) for rule in once)
            verdicts[key] = (kernel.algorithm, fine)  # keep the algorithm alive so its id stays unique
        return verdicts[key][1] and not (each and any(rule.found(kernel, arch) for rule in each))

    return usable
