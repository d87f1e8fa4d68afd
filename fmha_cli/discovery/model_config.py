"""Reads the attention of a model from its configuration: ``config.json`` as Hugging Face transformers writes it.

What a class does with the members is a row of ``arch_specs/_model_types.json``: the members that it fills in, other names of members,
and a formula (``domain.formula``) for each fact, in which ``i`` is the number of the layer, and the name of another fact stands for
that fact's value. ``tests/checks/model_table.py`` makes the file. A member that is null is null, not missing: ``"sliding_window": null``
switches off the window that the class would have. An outer configuration does not count for the language model inside
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.formula import names_of, value_of
from fmha_cli.domain.model import NUMBERS, OF_A_LAYER, SWITCHES, Fact, Model, model_of
from fmha_cli.domain.reading import parsed, regular_bytes

FILE, SCHEMA = "_model_types.json", "fmha.model-types/2"

ANY = "*"
"""The row for a type without its own row, where something says that it is a decoder."""


@dataclass(frozen=True)
class TypeRow:
    """The meaning of one ``model_type``.

    Attributes:
        source: file and symbol.
        why: no row of a problem can stand for its attention, because; empty where one can.
        text: the member that holds the language model, if the type is that of a model for several media.
        text_type: the model_type of that member where it does not say.
        names: other names of members -> the name in the formulas.
        defaults: the class's defaults for missing members; null members stay null.
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
    return rows_of(arch_document(FILE, SCHEMA))


def rows_of(document: Mapping[str, Any]) -> dict[str, TypeRow]:
    """The rows of a document of the schema; ``as`` in one names the row that has its facts."""
    rows = document["types"]
    shared = {name: {"facts": rows[row["as"]]["facts"]} if "as" in row else {} for name, row in rows.items()}
    return {
        name: TypeRow(**{key: value for key, value in row.items() if key != "as"}, **shared[name])
        for name, row in rows.items()
    }


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


_MOST = 4096
"""The most layers: they are looked at one by one."""

_MAY_DIFFER = ("heads", "kv_heads", "hdim", "hdim_v", "scale", "sink_logits")
"""Facts that global layers may have otherwise than local ones."""

_DECODERS = ("CausalLM", "LMHeadModel")
"""In the name of a class: it writes token after token."""


def read_config(path: Path, name: str, flag: str = "--model") -> tuple[Model, str]:
    """The model of a configuration, or of the folder that holds one.

    Args:
        name: of the model in records.
        flag: where it was given, for errors.

    Raises:
        UsageError: E061, no configuration of a model that problem flags can express.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        data = parsed(regular_bytes(file), constants=True)
        if not isinstance(data, Mapping):
            raise DecodeError("not an object")
        return read_members(data, name, str(file))
    except (OSError, ValueError) as fault:
        why = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        help = "the config.json of a decoder, as transformers writes it; `fmha models` lists the presets"
        raise UsageError(f"{flag} {path}: no model", code="E061", where=flag, why=why, help=help) from fault


def read_members(data: Mapping[str, Any], name: str, file: str) -> tuple[Model, str]:
    """The model of a configuration's members.

    Raises:
        ValueError: they are none of a model that problem flags can express.
    """
    members, assumed = _members(data)
    note = (
        f"{assumed}: taken for a decoder with the usual members; its attention is assumed, not known" if assumed else ""
    )
    title = f"{members.kind or 'model'} of {file}{' (assumed)' if assumed else ''}"
    return model_from(members, name, title, assumed), note


def model_from(members: Members, name: str, title: str, assumed: str = "") -> Model:
    """The model that members make by the row of their type. Raises ValueError: none that problem flags can express."""
    for formula, what in members.row.refused.items():
        if members.of(formula):
            raise ValueError(f"{members.kind or 'the model'}: {what}, which no flag expresses")
    return model_of(name, title, _facts(members), assumed)


def _members(data: Mapping[str, Any]) -> tuple[Members, str]:
    """The members that count, and the assumptions about them."""
    rows, place, kind = type_rows(), "", _kind(data)
    outer = data
    while (row := rows.get(kind)) is not None and row.text:
        inner = data.get(row.text)
        if not isinstance(inner, Mapping):  # an earlier form mixes the language model's members with the others
            inner = {key: value for key, value in data.items() if key != "model_type"}
        else:
            place += f"{row.text}."
        data, kind = inner, _kind(inner) or row.text_type
    if row is not None:
        if row.why:
            raise ValueError(f"{kind}: {row.why}")
        return Members(data, row, kind, place), ""
    said = (
        f"model_type {kind} is not in the table of transformers {release()}"
        if kind
        else "a configuration without model_type"
    )
    classes = [one for one in (outer.get("architectures"), data.get("architectures")) if isinstance(one, list)]
    named = [name for one in classes for name in one if isinstance(name, str)]
    if data.get("is_decoder") is not True and not any(word in name for name in named for word in _DECODERS):
        raise ValueError(
            f"{said}, and nothing says that it is a decoder (architectures: ...ForCausalLM, or is_decoder)"
        )
    nested = next(
        (key for key in ("text_config", "llm_config", "language_config") if isinstance(data.get(key), Mapping)), None
    )
    if nested is not None:
        raise ValueError(f"{said}, and its {nested} belongs to a model for several media: give that part alone")
    return Members(data, rows[ANY], kind, place), said


def _kind(data: Mapping[str, Any]) -> str:
    kind = data.get("model_type")
    return kind if isinstance(kind, str) else ""


def _facts(members: Members) -> dict[str, Fact]:
    """The facts of ``domain.model``. Raises ValueError: a member is missing, or cannot be read."""
    layers = _whole(members, "layers")
    if layers > _MOST:
        raise ValueError(f"{members.source('layers')} {layers}: more than {_MOST} layers")
    kinds = [_of_layer(members, i) for i in range(layers) if _attends(members, i)]
    cross = sum(bool(members.value("crosses", i)) for i in range(layers))
    if not kinds:
        raise ValueError("no layer has softmax attention")
    near, far = _two(kinds)
    facts = {key: Fact(value, members.source(key)) for key, value in near.items() if value is not None}
    usual = {"sink_logits": False, "scale": far["hdim"] ** -0.5, "hdim_v": far["hdim"]}
    for key in _MAY_DIFFER:
        if far[key] != near[key]:
            value = far[key] if far[key] is not None else usual[key]
            facts[f"global_{key}"] = Fact(value, members.source(key))
    facts["layers"] = Fact(len(kinds), members.source("layers" if len(kinds) == layers else "attends"))
    if near["window"] is not None:
        facts["local_layers"] = Fact(sum(one["window"] is not None for one in kinds), members.source("window"))
    if len(kinds) + cross < layers:
        facts["other_layers"] = Fact(layers - len(kinds) - cross, members.source("attends"))
    facts |= {"cross_layers": Fact(cross, members.source("crosses"))} if cross else {}
    for key in ("calls", "latent", "latent_rope"):
        facts |= {key: Fact(_whole(members, key), members.source(key))} if members.value(key) is not None else {}
    return facts


def _attends(members: Members, layer: int) -> bool:
    """Whether a layer has softmax attention. Raises ValueError: its type is not one that the class has."""
    if "attends" not in members.row.facts:
        return True
    answer = members.value("attends", layer)
    if answer is None:
        raise ValueError(f"{members.source('layer')}: {members.value('layer', layer)!r:.40}, which no flag expresses")
    return bool(answer)


def _two(kinds: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The facts of the local layers and of the global ones; those of the only kind twice.

    Raises:
        ValueError: there are more kinds.
    """
    different: list[Mapping[str, Any]] = []
    for one in kinds:
        if one not in different:
            different.append(one)
    different.sort(key=lambda one: one["window"] is None)
    near, far = different[0], different[-1]
    same = [key for key in OF_A_LAYER if key not in (*_MAY_DIFFER, "window") and near[key] != far[key]]
    if len(different) > 2 or (len(different) == 2 and (far["window"] is not None or near["window"] is None)) or same:
        said = "; ".join(
            ", ".join(f"{k} {v}" for k, v in one.items() if v not in (None, False)) for one in different[:4]
        )
        raise ValueError(
            f"layers of {len(different)} kinds, of which at most one has a window and one has none: {said}"
        )
    return near, far


def _of_layer(members: Members, layer: int) -> dict[str, Any]:
    """The facts of one layer; None stands for a default. Raises ValueError: a member is missing, or cannot be read."""
    facts: dict[str, Any] = {key: _whole(members, key, layer) for key in ("heads", "kv_heads", "hdim")}
    value = members.value("hdim_v", layer)
    facts["hdim_v"] = _whole(members, "hdim_v", layer) if value is not None and value != facts["hdim"] else None
    window = members.value("window", layer)
    facts["window"] = _whole(members, "window", layer) if window is not None else None
    facts |= {key: _number(members, key, layer) for key in OF_A_LAYER if key in NUMBERS}
    if facts["scale"] is not None and math.isclose(facts["scale"], facts["hdim"] ** -0.5, rel_tol=1e-12):
        facts["scale"] = None
    facts |= {key: True if members.value(key, layer) else None for key in OF_A_LAYER if key in SWITCHES}
    facts["causal"] = None if members.value("causal", layer) in (None, True) else False
    return {key: facts[key] for key in OF_A_LAYER}


def _whole(members: Members, fact: str, layer: int = 0) -> int:
    """A fact as a whole number above 0. Raises ValueError: it is none."""
    value = members.value(fact, layer)
    if type(value) is not int or value < 1:
        wanted = "lacks" if value is None else f"{value!r:.40}: not a whole number above 0:"
        raise ValueError(f"{wanted} {members.row.facts.get(fact, fact)}")
    return value


def _number(members: Members, fact: str, layer: int) -> float | None:
    """A fact as a positive number. Raises ValueError: it is none."""
    value = members.value(fact, layer)
    if value is not None and (type(value) not in (int, float) or not 0 < value < math.inf):
        raise ValueError(f"{value!r:.40}: not a positive number: {members.row.facts[fact]}")
    return None if value is None else float(value)
