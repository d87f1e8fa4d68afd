"""``fmha.models/1``: the presets of ``--model``, or one model, with the source of every fact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import taken_from, to_json
from fmha_cli.domain.layer import LayerKind
from fmha_cli.domain.members import Count, Least
from fmha_cli.domain.model import Fact, Model
from fmha_cli.domain.quantities import digits
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import cell, counted
from fmha_cli.report.table import Table

Data = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LayersRow:
    """The layers of one kind."""

    kind: LayerKind
    count: Annotated[int, Least(1), "attention calls: the layers, times calls"]
    kv_heads: Annotated[int, Least(1), "key/value heads"]
    hdim: Annotated[int, Least(1), "head dim of Q and K"]
    hdim_v: Annotated[int, Least(1), "head dim of V"]
    window: Annotated[int | None, Least(1), "keys that a query sees, its own included; null: all up to its own"]
    heads: Annotated[int, Least(1), "query heads"]
    causal: Annotated[bool, "a query sees no key behind its own"]
    softcap: Annotated[float, "cap of the scores; 0 is off"]
    scale: Annotated[float | None, "softmax scale; null: 1/sqrt(hdim)"]
    sink_logits: Annotated[bool, "every head has a learned sink logit"]
    alibi: bool


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model."""

    name: Annotated[str, "of the preset, or the path of the configuration"]
    title: str
    heads: Annotated[
        int, Least(1), "query heads of the first kind of layers; so too softcap, scale, sink_logits and alibi"
    ]
    layers: tuple[LayersRow, ...]
    softcap: Annotated[float, "cap of the scores; 0 is off"]
    scale: Annotated[float | None, "softmax scale; null: 1/sqrt(hdim)"]
    sink_logits: Annotated[bool, "every head has a learned sink logit"]
    alibi: bool
    calls: Annotated[int, Least(1), "attention calls of one layer"]
    latent: Annotated[Count, "columns of the latent row of multi-head latent attention; 0: none"]
    latent_rope: Annotated[Count, "its further columns, the rotary key"]
    other_layers: Annotated[Count, "layers without softmax attention"]
    cross_layers: Annotated[Count, "layers whose keys are another input's"]
    assumed: Annotated[str, "what was taken for granted about a model that no table knows; empty: nothing"]
    facts: Annotated[Mapping[str, Fact], "everything that was read, each with its source"]


@dataclass(frozen=True, kw_only=True)
class Models:
    """models --json: the presets, or one model."""

    schema: Literal["fmha.models/1"] = "fmha.models/1"
    models: tuple[ModelRow, ...]


def models_document(models: Iterable[Model]) -> dict[str, Any]:
    """The document of some models."""
    rows = tuple(
        taken_from(
            model,
            ModelRow,
            layers=tuple(taken_from(one, LayersRow) for one in model.layers),
            **{name: getattr(model.layers[0], name) for name in ("heads", "softcap", "scale", "sink_logits", "alibi")},
        )
        for model in models
    )
    return to_json(Models(models=rows))


_COLUMNS = (
    Column("model", path="name"),
    Column("layers"),
    Column("heads", path="heads"),
    Column("hdim"),
    Column("window", number=True),
    Column("more", fit=Fit.FOLD, least=16, rank=1),
    Column("title", path="title", fit=Fit.FOLD, least=16, rank=2),
)
_FACTS = (Column("fact"), Column("value", number=True), Column("source", fit=Fit.FOLD, least=24))


def models_view(document: Data) -> Table:
    """One line for each model; of a single one its facts, each with its source."""
    models = document["models"]
    if len(models) == 1:
        (model,) = models
        rows = [[name, cell(fact["value"]), fact["source"]] for name, fact in model["facts"].items()]
        said = f"; assumed, not known: {model['assumed']}" if model["assumed"] else ""
        return Table(_FACTS, rows, f"{model['name']}: {model['title']}; {_kinds(model)} layers{said}")
    rows = [
        [
            model["name"],
            _kinds(model),
            " ".join(_each(f"{one['heads']}/{one['kv_heads']}" for one in model["layers"])),
            " ".join(_each(_dims(one) for one in model["layers"])),
            next((str(one["window"]) for one in model["layers"] if one["window"]), ""),
            _more(model),
            model["title"],
        ]
        for model in models
    ]
    return Table(_COLUMNS, rows, counted(len(models), "model"))


def _kinds(model: Data) -> str:
    return " + ".join(f"{one['count']} {one['kind']}" for one in model["layers"])


def _each(texts: Iterable[str]) -> list[str]:
    """The texts of the kinds of layers; once if they agree."""
    return list(dict.fromkeys(texts))


def _dims(layers: Data) -> str:
    return str(layers["hdim"]) if layers["hdim"] == layers["hdim_v"] else f"{layers['hdim']}/{layers['hdim_v']}"


def _more(model: Data) -> str:
    parts = [text for one in model["layers"] for text in _scores(one)]
    parts += [f"latent {model['latent']} + {model['latent_rope']}"] if model["latent"] else []
    parts += [f"{model['calls']} calls a layer"] if model["calls"] > 1 else []
    return ", ".join(_each(parts + (["assumed"] if model["assumed"] else [])))


def _scores(layers: Data) -> list[str]:
    """What one kind of layers does to the scores."""
    parts = [] if layers["causal"] else ["not causal"]
    parts += [f"softcap {digits(layers['softcap'])}"] if layers["softcap"] else []
    parts += [f"scale {digits(layers['scale'])}"] if layers["scale"] is not None else []
    parts += ["sink logits"] if layers["sink_logits"] else []
    return parts + (["alibi"] if layers["alibi"] else [])


DOCUMENTS = (Document(Models, models_view, rows="models", columns=_COLUMNS),)
