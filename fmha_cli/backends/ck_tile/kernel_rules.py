"""The rules over kernels alone (K200-K299): which kernels exist, and which can be built and used on their architecture."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

from fmha_cli.backends.ck_tile.enumeration import emitted, list_emitted
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.revisions import NAME, arch_facts, in_revision, revisions, serves
from fmha_cli.backends.gpu.conditions import KernelRule, KernelRules
from fmha_cli.backends.gpu.known_bad import known_bad
from fmha_cli.backends.gpu.nearest import find_nearest
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity

NO_ARCH = "K201"
"""The rule that refuses an architecture."""


def _revision(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    names, rev = [revision.name for revision in revisions()], algorithm_of(kernel).rev
    return None if rev in names else Refusal(f"revision {rev}", f"one of {', '.join(names)}")


def _arch(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    rev = algorithm_of(kernel).rev
    if serves(arch, rev) or _revision(kernel, arch):
        return None
    having = [revision.name for revision in revisions() if serves(arch, revision.name)]
    return Refusal(f"revision {rev} has nothing for {arch.name}", f"rev={having[0]}" if having else None)


def _family(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    rev = algorithm_of(kernel).rev
    if not serves(arch, rev) or list_emitted(arch.name, kernel.family, rev):
        return None
    return Refusal(f"revision {rev} has no {kernel.family.value} kernels for {arch.name}")


@lru_cache(maxsize=64)
def _emitted(arch: str, family: Family, revision: str) -> frozenset[KernelSpec]:
    return frozenset(found.kernel for found in list_emitted(arch, family, revision))


@lru_cache(maxsize=8)
def _tabled(arch: str, family: Family, revision: str) -> frozenset[KernelSpec]:
    """Every product of upstream's tables, whether or not its generator prunes it."""
    return frozenset(found.kernel for found in emitted(load_arch(arch), family, revision, ()))


def _listed(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    place = arch.name, kernel.family, algorithm_of(kernel).rev
    listed = _emitted(*place)
    if not listed or kernel in listed or kernel in _tabled(*place):
        return None
    return find_nearest(kernel, listed)


def _pipeline(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    rows = [row for row in arch.backends.get(NAME, {}).get("pipelines", ()) if in_revision(row, a.rev)]
    able = [name for row in rows for name in row["names"]]
    wanted = Pipeline.BWD.value if kernel.family.value.startswith("bwd") else a.pipeline.value
    if not rows or wanted in able:
        return None
    return Refusal(f"{wanted} does not work on {arch.name}", f"one of {', '.join(able)}")


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
        "K206": _pipeline,
        "K290": _matrix,
        "K291": _known,
    },
)
LISTED_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME, {"K200": _revision, NO_ARCH: _arch, "K202": _family, "K250": _listed}
)


_TABLES = (LISTED_RULES, GENERATOR_RULES, TARGET_RULES)
ALL: tuple[KernelRule, ...] = tuple(sorted((rule for table in _TABLES for rule in table), key=lambda rule: rule.id))


def _no_arch(kernel: KernelSpec) -> Reason:
    return Reason(NO_ARCH, f"{kernel.arch} is not a known AMD architecture", "fmha archs", Severity.PLACE)


_RULES = KernelRules(ALL, arch_facts, _no_arch)
KERNEL_RULES: tuple[Rule, ...] = _RULES.rules()


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why a kernel does not exist or cannot be used on its architecture; empty if it can be built."""
    return _RULES.refusals(kernel)


def target_rules(arch: ArchSpec, family: Family, revision: str) -> list[KernelRule]:
    """Rules that may refuse kernels of a family which upstream's generator emits."""
    return [r for r in TARGET_RULES if family in r.families and concerns(r, arch, family, revision)]


def answers_to(rule: KernelRule, arch: ArchSpec) -> Callable[[KernelSpec], Reason | None]:
    """What a rule has against a kernel, checked once for all that look the same to it."""
    answers: dict[Hashable, Reason | None] = {}

    def against(kernel: KernelSpec) -> Reason | None:
        key = rule.key(kernel)
        if key not in answers:
            answers[key] = rule.against(kernel, arch)
        return answers[key]

    return against
