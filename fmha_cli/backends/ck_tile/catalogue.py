"""The kernels of CK-Tile: all that upstream's generator emits for an architecture, in upstream's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fmha_cli.backends.ck_tile.enumeration import count_emitted, list_emitted
from fmha_cli.backends.ck_tile.kernel_rules import answers_to, target_rules
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.profiles import admits, canonical_profile
from fmha_cli.backends.ck_tile.revisions import BASELINE, require_arch, revision_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec


def family_kernels(arch: ArchSpec, family: Family, revision: str = BASELINE) -> Sequence[KernelSpec]:
    """All kernels of one family that upstream's generator emits, in the order in which its generated API tries them.

    Small-tile backward kernels are the exception: they stay where the generator emits them, while its API file sorts
    them to the front. Rules of the stage ``target`` may refuse some of the kernels.
    """
    return tuple(e.kernel for e in list_emitted(arch.name, family, revision))


def buildable_kernels(arch: ArchSpec, family: Family, revision: str = BASELINE) -> Iterator[KernelSpec]:
    """The kernels of :func:`family_kernels` that can be used on the architecture."""
    refuses = [answers_to(rule, arch) for rule in target_rules(arch, family, revision)]
    return (
        e.kernel for e in list_emitted(arch.name, family, revision) if not any(against(e.kernel) for against in refuses)
    )


def count(arch: ArchSpec, revision: str | None, families: Iterable[Family]) -> int:
    """The number of kernels that ``kernels`` yields without a profile.

    Raises:
        UsageError: no such revision.
        EmptySelection: the revision has no kernels for the architecture.
    """
    name = revision_of(revision).name
    require_arch(arch, name)
    rules = {family: (*GENERATOR_RULES, *target_rules(arch, family, name)) for family in families}
    return sum(count_emitted(arch, family, name, own) for family, own in rules.items())


def kernels(
    arch: ArchSpec,
    profile: str | None = None,
    revision: str | None = None,
    families: Iterable[Family] | None = None,
) -> Iterator[KernelSpec]:
    """Yield the kernels of some families, of all by default.

    With a profile: all that upstream emits for it, usable or not. Without one: the usable kernels of every profile.

    Raises:
        UsageError: no such revision or profile.
        EmptySelection: the revision has no kernels for the architecture.
    """
    name = revision_of(revision).name
    wanted = None if profile is None else canonical_profile(profile, name)
    require_arch(arch, name)
    return _chain(arch, name, wanted, tuple(Family) if families is None else tuple(families))


def _chain(arch: ArchSpec, revision: str, profile: str | None, families: Sequence[Family]) -> Iterator[KernelSpec]:
    for family in families:
        if profile is None:
            yield from buildable_kernels(arch, family, revision)
        else:
            holds = admits(profile, family, revision)
            yield from (e.kernel for e in list_emitted(arch.name, family, revision) if holds(e))
