"""Rules that refuse kernels which upstream's generator emits but which cannot be used on their architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.ck_tile.tables import SIGNATURE_FIELDS
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import ArchSpec, arch_document
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal


@dataclass(frozen=True)
class KnownBad:
    """A report about a class of kernels.

    Attributes:
        archs, families, revisions: where the report applies; empty = everywhere.
        fields: field -> texts of the values that are affected.
        effect: ``refused`` (such kernels are not offered) or ``noted`` (they are offered with a note).
        finding: the kind of finding that it causes on an emulated device; empty = none.
    """

    archs: tuple[str, ...]
    families: tuple[str, ...]
    revisions: tuple[str, ...]
    fields: Mapping[str, tuple[str, ...]]
    effect: str
    what: str
    link: str
    finding: str = ""

    def holds_for(self, arch: str, family: Family, revision: str) -> bool:
        """Whether any kernel of the family may belong to the class."""
        places = ((self.archs, arch), (self.families, family.value), (self.revisions, revision))
        return not any(known and mine not in known for known, mine in places)

    def meets(self, kernel: KernelSpec) -> bool:
        """Whether a kernel belongs to the class."""
        a = algorithm_of(kernel)
        if not self.holds_for(kernel.arch, kernel.family, a.rev):
            return False
        nouns = {name: kernel.signature if name in SIGNATURE_FIELDS else a for name in self.fields}
        return all(field_text(getattr(nouns[name], name)) in texts for name, texts in self.fields.items())


@cache
def known_bad() -> tuple[KnownBad, ...]:
    """Every report of ``arch_specs/_known_bad.json``."""
    return tuple(_report(row) for row in arch_document("_known_bad.json", "fmha.known-bad/1")["reports"])


def _report(row: Mapping[str, Any]) -> KnownBad:
    lists = {key: tuple(row.get(key, ())) for key in ("archs", "families", "revisions")}
    return KnownBad(
        **lists,
        fields={name: tuple(texts) for name, texts in row.get("fields", {}).items()},
        effect=row["effect"],
        what=row["what"],
        link=row["link"],
        finding=row.get("finding", ""),
    )


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
    found = next((bad for bad in known_bad() if bad.effect == "refused" and bad.meets(kernel)), None)
    return None if found is None else Refusal(f"known to be bad: {found.what} ({found.link})")


def concerns(rule: KernelRule, arch: ArchSpec, family: Family, revision: str) -> bool:
    """Whether a rule may refuse any kernel of a family: false where no report concerns the family."""
    reports = (bad for bad in known_bad() if bad.effect == "refused")
    return rule.check is not _known or any(bad.holds_for(arch.name, family, revision) for bad in reports)


TARGET_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K290": _matrix,
        "K291": _known,
    },
)
