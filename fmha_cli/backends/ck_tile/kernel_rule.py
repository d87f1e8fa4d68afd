"""The common part of the rules over kernels: the stages at which they apply, and facts about families and architectures."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from fmha_cli.backends.ck_tile.revisions import arch_class
from fmha_cli.backends.gpu.conditions import known_arch
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec

NO_ARCH = "K201"
"""The rule that refuses an architecture."""
BACKWARD_ALL = tuple(f for f in Family if f.value.startswith("bwd"))


class RuleStage(StrEnum):
    """Who applies the rule."""

    GENERATOR = "generator"
    """Upstream's example generator, inside its loops. The enumerator prunes with the rule."""
    TABLE = "table"
    """The tables themselves. Every enumerated kernel meets the rule."""
    TARGET = "target"
    """Not upstream: the generator emits kernels that cannot be used on the architecture."""


def arch_facts(name: str) -> ArchSpec | None:
    """The facts of an AMD architecture, or None if there are none."""
    arch = known_arch(name)
    return arch if arch is not None and arch.vendor == "amd" else None


@cache
def _class_name(arch: str, family: Family, revision: str) -> str:
    facts = arch_facts(arch)
    found = arch_class(facts, family, revision) if facts else None
    return found.name if found else ""


def class_of(kernel: KernelSpec) -> str:
    """The name of the class to which upstream assigns a kernel's architecture; empty if it has none."""
    return _class_name(kernel.arch, kernel.family, algorithm_of(kernel).rev)


def cdna_class(kernel: KernelSpec) -> bool:
    """Whether upstream's gfx9 conditions hold for a kernel (``factory.arch.name.startswith("gfx9")``)."""
    return class_of(kernel).startswith("gfx9")
