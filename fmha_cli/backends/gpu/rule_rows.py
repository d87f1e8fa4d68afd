"""What a backend's rules say of themselves: the rows of ``arch_specs/_BACKEND_rules.json``. Their checks are code.

Every function takes the backend's name, and maps ids to checks. The result keeps the order of the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from fmha_cli.backends.gpu.conditions import MAIN, Condition, the_family
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal, Rule, Severity, refuses_nothing
from fmha_cli.domain.signature import Signature

S = TypeVar("S")
_SIGNATURE = frozenset(field.name for field in fields(Signature))


@dataclass(frozen=True)
class RuleRow:
    """One row.

    Attributes:
        text: the rule in general.
        help: why it is a rule.
        source: where upstream has it.
        number: upstream's number of it; empty if upstream has none.
        families: the families that it is about; empty = every family (of main kernels, if it reads a problem).
        reads: the fields of signature and algorithm that its check reads besides family and arch; ``*`` = all.
        stage: who applies a rule over kernels; empty for a rule about problems.
        form: the other rules over kernels rely on it.
    """

    id: str
    text: str
    help: str
    source: str
    number: str
    families: tuple[Family, ...]
    reads: tuple[str, ...]
    stage: str
    form: bool
    severity: Severity


@cache
def rule_rows(backend: str) -> Mapping[str, RuleRow]:
    """Every row of a backend by its id."""
    return {row["id"]: _row(row) for row in arch_document(f"_{backend}_rules.json", "fmha.rules/1")["rules"]}


def _row(row: Mapping[str, Any]) -> RuleRow:
    return RuleRow(
        id=row["id"],
        text=row["text"],
        help=row["help"],
        source=row["source"],
        number=row.get("number", ""),
        families=tuple(Family(name) for name in row.get("families", ())),
        reads=tuple(row.get("reads", ())),
        stage=row.get("stage", ""),
        form=row.get("form", False),
        severity=Severity[row.get("severity", "kind").upper()],
    )


def conditions(
    backend: str, checks: Mapping[str, Callable[[S, KernelSpec], Refusal | None]]
) -> tuple[Condition[S], ...]:
    """The conditions with these checks."""
    return tuple(_condition(rule_rows(backend)[id], check) for id, check in checks.items())


def _condition(row: RuleRow, check: Callable[[S, KernelSpec], Refusal | None]) -> Condition[S]:
    paths = [f"{'signature' if name in _SIGNATURE else 'algorithm'}.{name}" for name in row.reads]
    reads = attrgetter(*paths) if paths else the_family
    return Condition(row.id, row.text, check, row.help, row.source, row.families or MAIN, reads, row.severity)


def unchecked_rules(backend: str, ids: Iterable[str]) -> tuple[Rule, ...]:
    """Rules that only order kernels, or that apply where there is no kernel: they refuse nothing."""
    rows = (rule_rows(backend)[id] for id in ids)
    return tuple(Rule(row.id, row.text, refuses_nothing, row.help, row.source, row.severity) for row in rows)
