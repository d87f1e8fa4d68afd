"""``fmha.models/1``: the presets of ``--model``, or one model, with the source of every fact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fmha_cli.domain.model import OF_SCORES, Layers, Model
from fmha_cli.domain.quantities import digits
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import cell, counted
from fmha_cli.report.table import Table


@dataclass(frozen=True, kw_only=True)
class Models:
    """models --json: the presets, or one model."""

    schema: Literal["fmha.models/1"] = "fmha.models/1"
    models: tuple[Model, ...]


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


def models_view(document: Models) -> Table:
    """One line for each model; of a single one its facts, each with its source."""
    models = document.models
    if len(models) == 1:
        (model,) = models
        rows = [[name, cell(fact.value), fact.source] for name, fact in model.facts.items()]
        said = f"; assumed, not known: {model.assumed}" if model.assumed else ""
        return Table(_FACTS, rows, f"{model.name}: {model.title}; {_kinds(model)} layers{said}")
    rows = [
        [
            model.name,
            _kinds(model),
            " ".join(_each(f"{one.heads}/{one.kv_heads}" for one in model.layers)),
            " ".join(_each(map(_dims, model.layers))),
            next((str(one.window) for one in model.layers if one.window), ""),
            _more(model),
            model.title,
        ]
        for model in models
    ]
    return Table(_COLUMNS, rows, counted(len(models), "model"))


def _kinds(model: Model) -> str:
    return " + ".join(f"{one.count} {one.kind}" for one in model.layers)


def _each(texts: Iterable[str]) -> list[str]:
    """The texts of the kinds of layers; once if they agree."""
    return list(dict.fromkeys(texts))


def _dims(layers: Layers) -> str:
    return str(layers.hdim) if layers.hdim == layers.hdim_v else f"{layers.hdim}/{layers.hdim_v}"


def _more(model: Model) -> str:
    parts = [text for one in model.layers for text in _scores(one)]
    parts += [f"latent {model.latent} + {model.latent_rope}"] if model.latent else []
    parts += [f"{model.calls} calls a layer"] if model.calls > 1 else []
    return ", ".join(_each(parts + (["assumed"] if model.assumed else [])))


def _scores(layers: Layers) -> list[str]:
    """What one kind of layers does to the scores."""
    parts = [] if layers.causal else ["not causal"]
    values = {name.replace("_", " "): value for name in OF_SCORES if (value := getattr(layers, name))}
    return parts + [name if value is True else f"{name} {digits(value)}" for name, value in values.items()]


DOCUMENTS = (Document(Models, models_view, rows="models", columns=_COLUMNS),)
