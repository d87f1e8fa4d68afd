"""What the classes of transformers do with a configuration: the rows of ``arch_specs/_model_types.json``.

A row says what its class is. For one whose attention can be served it has the members that the class fills in, the other names of
members, and a formula (``domain.formula``) for each fact, in which ``i`` is the number of the layer, and the name of another fact
stands for that fact's value. ``benchmarks/model_types.py`` makes the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.formula import names_of, value_of

FILE, SCHEMA = "_model_types.json", "fmha.model-types/2"

ANY = "*"
"""The row by which a type that has none of its own is read, where something says that it is a decoder."""


@dataclass(frozen=True)
class TypeRow:
    """What one ``model_type`` means.

    Attributes:
        source: file and symbol.
        why: no row of a problem can stand for its attention, because; empty where one can.
        text: the member that holds the language model, if the type is that of a model for several media.
        text_type: the model_type of that member where it does not say.
        names: other names of members -> the name in the formulas.
        defaults: what the class fills in for members that are not there; null members stay null.
        facts: name -> formula.
        refused: formula -> what is true of the attention where it holds, which no flag expresses.
    """

    source: str
    why: str = ""
    text: str = ""
    text_type: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@cache
def type_rows() -> Mapping[str, TypeRow]:
    """Every row by its ``model_type``."""
    rows = arch_document(FILE, SCHEMA)["types"]
    return {name: TypeRow(**_unpacked(row, rows)) for name, row in rows.items()}


def _unpacked(row: Mapping[str, Any], rows: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its facts, which may stand in the row of another type."""
    if "as" not in row:
        return dict(row)
    rest = {key: value for key, value in row.items() if key != "as"}
    return {**rest, "facts": rows[row["as"]]["facts"]}


def release() -> str:
    """The release of transformers that the file describes."""
    return str(arch_document(FILE, SCHEMA)["release"])


@dataclass(frozen=True)
class Members:
    """The members of a configuration, as its class has them.

    Attributes:
        place: in front of the name of a member, for sources.
    """

    given: Mapping[str, Any]
    row: TypeRow
    kind: str
    place: str = ""

    def value(self, fact: str, layer: int = 0) -> Any:
        """A fact of a layer; None where no formula gives one. Raises ValueError: it has no value."""
        formula = self.row.facts.get(fact)
        return None if formula is None else self.of(formula, layer, fact)

    def of(self, formula: str, layer: int = 0, fact: str = "") -> Any:
        """The value of a formula; within that of ``fact``, its name is a member's. Raises ValueError: it has none."""

        def named(name: str) -> Any:
            if name == "i":
                return layer
            if name in self.row.facts and name != fact:
                return self.value(name, layer)
            return self.member(name)

        try:
            return value_of(formula, named)
        except ValueError as fault:
            lacking = [
                name for name in names_of(formula) if name not in ("i", *self.row.facts) and self.member(name) is None
            ]
            raise ValueError(f"lacks {lacking[0]}" if lacking and "None" in str(fault) else str(fault)) from fault

    def member(self, name: str) -> Any:
        """A member as the class has it."""
        found = self._spelled(name)
        return self.given[found] if found is not None else self.row.defaults.get(name)

    def _spelled(self, name: str) -> str | None:
        """The name under which the configuration has a member."""
        if name in self.given:
            return name
        return next((alias for alias, native in self.row.names.items() if native == name and alias in self.given), None)

    def source(self, fact: str) -> str:
        """Where a fact is from."""
        formula = self.row.facts[fact]
        names = self._names(formula, fact)
        if formula.isidentifier() and names:
            found = self._spelled(formula)
            return f"{self.place}{found}" if found else f"{formula}, default of {self.kind} ({self.row.source})"
        given = [f"{self.place}{name}" for name in map(self._spelled, names) if name is not None]
        return f"{', '.join(given) or 'defaults'}; {formula} ({self.row.source})"

    def _names(self, formula: str, fact: str) -> list[str]:
        """The members that decide a formula, those of other facts included."""
        found: list[str] = []
        for name in names_of(formula):
            if name in self.row.facts and name != fact:
                found += self._names(self.row.facts[name], name)
            elif name != "i":
                found.append(name)
        return list(dict.fromkeys(found))
