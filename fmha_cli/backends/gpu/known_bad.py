"""Reports about classes of kernels of other projects: their known faults, with a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.decision import KNOWN
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Signature

_SIGNATURE_FIELDS = frozenset(f.name for f in fields(Signature))


@dataclass(frozen=True)
class KnownBad:
    """A report about a class of kernels.

    Attributes:
        archs, families, revisions: where the report applies; empty = everywhere.
        fields: field -> texts of the values that are affected.
        effect: ``refused`` (such kernels are not offered) or ``noted`` (they are offered with a note).
        finding: the kind of finding that it causes on an emulated device; empty = none.
        problems: field of a signature -> texts of the values with which problems are affected; empty = every problem.
        scores: the size of scores from which it matters; 0 = of any size.
        weights: |scale| / seqlen_k, the size of scaled weights, up to which it matters; 0 = of any size.
    """

    archs: tuple[str, ...]
    families: tuple[str, ...]
    revisions: tuple[str, ...]
    fields: Mapping[str, tuple[str, ...]]
    effect: str
    what: str
    link: str
    finding: str = ""
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scores: float = 0.0
    weights: float = 0.0

    def holds_for(self, arch: str, family: Family, revision: str) -> bool:
        """Whether any kernel of the family may belong to the class."""
        places = ((self.archs, arch), (self.families, family.value), (self.revisions, revision))
        return not any(known and mine not in known for known, mine in places)

    def meets(self, kernel: KernelSpec) -> bool:
        """Whether a kernel belongs to the class."""
        if not self.holds_for(kernel.arch, kernel.family, getattr(kernel.algorithm, "rev", "")):
            return False
        nouns = {name: kernel.signature if name in _SIGNATURE_FIELDS else kernel.algorithm for name in self.fields}
        return all(field_text(getattr(nouns[name], name)) in texts for name, texts in self.fields.items())


@cache
def known_bad(backend: str) -> tuple[KnownBad, ...]:
    """Every report of ``arch_specs/_known_bad.json`` about a backend."""
    rows = arch_document("_known_bad.json", "fmha.known-bad/2")["reports"]
    return tuple(_report(row) for row in rows if row["backend"] == backend)


def noted(kernel: KernelSpec, problem: Problem) -> str:
    """The known faults of a kernel that is offered for a problem, for the note of its rank; empty without any."""
    wanted = Signature.of(problem)
    reports = (
        bad
        for bad in known_bad(kernel.backend)
        if bad.effect == "noted"
        and bad.scores <= abs(problem.scale) * problem.hdim
        and (not bad.weights or abs(problem.scale) <= bad.weights * problem.seqlen_k)
        and bad.meets(kernel)
        and all(field_text(getattr(wanted, name)) in texts for name, texts in bad.problems.items())
    )
    return "".join(f"{KNOWN}{f'{bad.finding}: ' * bool(bad.finding)}{bad.what} ({bad.link})" for bad in reports)


def _report(row: Mapping[str, Any]) -> KnownBad:
    lists = {key: tuple(row.get(key, ())) for key in ("archs", "families", "revisions")}
    return KnownBad(
        **lists,
        fields={name: tuple(texts) for name, texts in row.get("fields", {}).items()},
        problems={name: tuple(texts) for name, texts in row.get("problems", {}).items()},
        effect=row["effect"],
        what=row["what"],
        link=row["link"],
        finding=row.get("finding", ""),
        scores=row.get("scores", 0.0),
        weights=row.get("weights", 0.0),
    )
