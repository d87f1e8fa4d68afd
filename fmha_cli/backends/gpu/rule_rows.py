"""The texts and properties of a backend's rules, from ``arch_specs/_BACKEND_rules.json``. Their checks are code.

Every function takes the backend's name. The result keeps the order of the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache, partial
from typing import Any, TypeVar

from fmha_cli.backends.gpu.conditions import MAIN, Condition, ConditionRow, KernelCheck, KernelRule
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal, Rule, Severity, refuses_nothing

S = TypeVar("S")
Found = Mapping[str, object] | Refusal | None
"""What a condition has against a kernel: a refusal, or the values for the places in the texts of its row; None if nothing."""
Finder = Callable[[S, KernelSpec], Iterator[tuple[str, Found]]]
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


def refuse_if(wrong: object, **values: object) -> Found:
    """The values where something is wrong, else None."""
    return values if wrong else None


def conditions(backend: str, checks: Mapping[str, Callable[[S, KernelSpec], Found]]) -> tuple[Condition[S], ...]:
    """The conditions with these checks. The row of one whose check finds values holds the texts of its refusal: ``says`` and,
    if something helps, ``hint``, which does not count where the value ``help`` is None.
    """

    def refusal(id: str, situation: S, kernel: KernelSpec) -> Refusal | None:
        found = checks[id](situation, kernel)
        if found is None or isinstance(found, Refusal):
            return found
        row = rule_rows(backend)[id]
        helps = "hint" in row and found.get("help", "") is not None
        return Refusal(row["says"].format(**found), row["hint"].format(**found) if helps else None)

    return tuple(Condition(**_members(backend, id, MAIN), check=partial(refusal, id)) for id in checks)


def together(ids: Iterable[str], find: Finder[S]) -> dict[str, Callable[[S, KernelSpec], Found]]:
    """The checks of conditions whose findings one function yields by their ids. It runs once for conditions that are asked one
    after the other about the same kernel, so they should read little of a kernel.
    """
    latest: tuple[S, KernelSpec, Mapping[str, Found]] | None = None

    def check(id: str, situation: S, kernel: KernelSpec) -> Found:
        nonlocal latest
        known = latest
        if known is None or known[0] is not situation or known[1] is not kernel:
            known = latest = (situation, kernel, dict(find(situation, kernel)))
        return known[2][id]

    return {id: partial(check, id) for id in ids}


def unchecked_rules(backend: str, ids: Iterable[str]) -> tuple[Rule, ...]:
    """Rules that only order kernels, or that apply where no kernel exists: they never refuse."""
    return tuple(ConditionRow(**_members(backend, id, ())).rule_with(refuses_nothing) for id in ids)
