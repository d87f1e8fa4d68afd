"""The texts and properties of a backend's rules, from ``arch_specs/_BACKEND_rules.json``. Their checks are code.

Every function takes the backend's name, and maps ids to checks. The result keeps the order of the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from fmha_cli.backends.gpu.conditions import MAIN, Condition, ConditionRow, KernelCheck, KernelRule
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal, Rule, Severity, refuses_nothing

S = TypeVar("S")
_ROW = frozenset(field.name for field in fields(ConditionRow))


@cache
def rule_rows(backend: str) -> Mapping[str, Mapping[str, Any]]:
    """The members of every row of a backend, by the rule's id."""
    return {row["id"]: row for row in arch_document(f"_{backend}_rules.json", "fmha.rules/1")["rules"]}


def _members(backend: str, id: str, every: tuple[Family, ...]) -> dict[str, Any]:
    """The members of a ``ConditionRow``. A row without families concerns every family."""
    row = {name: value for name, value in rule_rows(backend)[id].items() if name in _ROW}
    return {
        **row,
        "source": f"{row['source']} ({row['number']})" if "number" in row else row["source"],
        "families": tuple(Family(name) for name in row["families"]) if "families" in row else every,
        "reads": tuple(row.get("reads", ())),
        "severity": Severity[row.get("severity", "kind").upper()],
    }


def kernel_rules(backend: str, checks: Mapping[str, KernelCheck]) -> tuple[KernelRule, ...]:
    """The rules over kernels with these checks."""
    return tuple(KernelRule(**_members(backend, id, tuple(Family)), check=check) for id, check in checks.items())


def conditions(
    backend: str, checks: Mapping[str, Callable[[S, KernelSpec], Refusal | None]]
) -> tuple[Condition[S], ...]:
    """The conditions with these checks."""
    return tuple(Condition(**_members(backend, id, MAIN), check=check) for id, check in checks.items())


def unchecked_rules(backend: str, ids: Iterable[str]) -> tuple[Rule, ...]:
    """Rules that only order kernels, or that apply where no kernel exists: they never refuse."""
    return tuple(ConditionRow(**_members(backend, id, ())).rule_with(refuses_nothing) for id in ids)
