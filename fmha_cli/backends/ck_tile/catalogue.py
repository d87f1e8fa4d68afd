"""The kernels of CK-Tile: all that upstream's generator emits for an architecture, in upstream's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from fmha_cli.arch import ArchSpec
from fmha_cli.backends.ck_tile.enumeration import Emitted, emitted
from fmha_cli.backends.ck_tile.kernel_rule import arch_facts
from fmha_cli.backends.ck_tile.kernel_rules_target import TARGET_RULES
from fmha_cli.backends.ck_tile.revisions import BASELINE, require_arch, revision_of
from fmha_cli.kernel import Family, KernelSpec


@lru_cache(maxsize=64)
def _emitted(arch: str, family: Family, revision: str) -> tuple[Emitted, ...]:
    facts = arch_facts(arch)
    return tuple(emitted(facts, family, revision)) if facts else ()


def family_kernels(arch: ArchSpec, family: Family, revision: str = BASELINE) -> Sequence[KernelSpec]:
    """The buildable kernels of one family, in the order in which upstream's generated API tries them (small-tile backward
    kernels stand where the generator emits them; its API file sorts them to the front)."""
    return tuple(e.kernel for e in _emitted(arch.name, family, revision) if usable(e.kernel, arch))


def usable(kernel: KernelSpec, arch: ArchSpec) -> bool:
    """Whether nothing about the architecture forbids a kernel that upstream's generator emits."""
    return not any(kernel.family in rule.families and rule.check(kernel, arch) for rule in TARGET_RULES)


def kernels(arch: ArchSpec, revision: str | None = None, profile: str | None = None) -> Iterator[KernelSpec]:
    """The kernels of all families, lazily.

    Raises:
        UsageError: no such revision.
        EmptySelection: the revision has nothing for the architecture.
    """
    name = revision_of(revision).name
    require_arch(arch, name)
    for family in Family:
        yield from family_kernels(arch, family, name)
