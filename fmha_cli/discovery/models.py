"""The presets of ``--model`` in ``arch_specs/_models.json``, the layers that a name asks for, and the points of their sweeps.

A preset that is named without sizes is swept over the lengths of its phase. A length that is given alone is that of the
context in both phases: the queries and keys of a prompt, the keys of a decoding step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fmha_cli.discovery.model_config import read_config
from fmha_cli.discovery.sweep import Given
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.codec import DecodeError, from_json
from fmha_cli.domain.errors import InternalError, UsageError
from fmha_cli.domain.layer import LayerKind, LayerPhase
from fmha_cli.domain.model import Fact, Layers, Model, model_of
from fmha_cli.domain.suggest import NameKind, suggest

FILE, SCHEMA = "_models.json", "fmha.model-presets/1"

ALL = "all"
"""The suffix that means every kind of layer, as no suffix does."""

SIZES: Mapping[LayerPhase, Mapping[str, str]] = {
    LayerPhase.PREFILL: {"batch": "1", "seqlen": "1k:32k:*2"},
    LayerPhase.DECODE: {"batch": "1,8,32,128", "seqlen_k": "1k,8k,32k"},
}
"""The sizes of a phase that no flag gives."""


@dataclass(frozen=True)
class WantedModel:
    """The request of one ``--model``: a model, and its layers that count; ``note`` is a word for people."""

    model: Model
    layers: tuple[Layers, ...]
    note: str = ""


@cache
def presets() -> Mapping[str, Model]:
    """Every preset by name.

    Raises:
        InternalError: the file is damaged.
    """
    return presets_of(arch_document(FILE, SCHEMA))


def presets_of(document: Mapping[str, Any]) -> dict[str, Model]:
    """The presets that a document of the schema holds.

    Raises:
        InternalError: a preset lacks a fact or a source, or its facts contradict each other.
    """
    where, found = f"arch_specs/{FILE}", {}
    for name, preset in document["models"].items():
        try:
            facts = {key: from_json(Fact, fact, key) for key, fact in preset["facts"].items()}
            found[name] = model_of(name, preset["title"], facts)
        except (DecodeError, ValueError, KeyError, TypeError, AttributeError) as fault:
            raise InternalError(f"{where}: {name}: {fault}", where=where) from fault
    return found


def wanted_model(text: str, flag: str = "--model") -> WantedModel:
    """The model and the layers of ``NAME[:local|:global|:all]`` or ``PATH[:...]``.

    Args:
        flag: where it was given, for errors.

    Raises:
        UsageError: E060, no such preset; E061, no configuration of a model; E062, no such layers.
    """
    head, colon, tail = text.rpartition(":")
    kinds = (*(kind.value for kind in LayerKind), ALL)
    name, suffix = (head, tail) if colon and tail in kinds else (text, ALL)
    model, note = _named(name, flag)
    layers = tuple(one for one in model.layers if suffix in (ALL, one.kind))
    if not layers:
        has = " and ".join(f"{one.count} {one.kind}" for one in model.layers)
        why = f"{model.name} has {has} layers"
        help = f"{flag} {name}:{model.layers[0].kind}"
        raise UsageError(f"{flag} {text}: no {suffix} layers", code="E062", where=flag, why=why, help=help)
    return WantedModel(model, layers, note)


def _named(name: str, flag: str) -> tuple[Model, str]:
    known = presets()
    if name in known:
        return known[name], ""
    path = Path(name)
    if os.path.exists(path) and (path.is_dir() or path.suffix == ".json" or path.parent != Path(".")):
        return read_config(path, name, flag)
    last = path.name if path.suffix != ".json" else name
    help = suggest(
        last, known, NameKind.MODEL, "`fmha models` lists the presets; a configuration is given as ./config.json"
    )
    raise UsageError(f"{flag} {name}: no such preset, and no such file", code="E060", where=flag, help=help)


def phases_of(text: str | None) -> tuple[LayerPhase, ...]:
    """The phases of ``--phase``; prefill if it is not given."""
    return tuple(LayerPhase) if text == "both" else (LayerPhase(text or LayerPhase.PREFILL),)


def completed(
    given: Given, wanted: Model, layers: Layers, phase: LayerPhase, tp: int, drops: frozenset[str]
) -> dict[str, Any]:
    """The flags of one kind of layers in one phase, as a sweep takes them: the given ones, and the model's for the
    rest.

    Args:
        given: flag key -> the given value. drops: flags that the given ones exclude.

    Raises:
        UsageError: E062, an encoder has no decoding steps.
        ImpossibleProblem: P019, the heads cannot be divided among ``tp`` devices.
    """
    if phase is LayerPhase.DECODE and not wanted.causal:
        raise UsageError(
            f"--phase decode: {wanted.name} is not a decoder",
            code="E062",
            where="--phase",
            why="its queries see the keys behind them too",
            help="--phase prefill",
        )
    sizes, taken = _sizes(given, phase)
    rest = {key: value for key, value in given.items() if key not in taken}
    one_query = rest.get("seqlen", sizes.get("seqlen")) == "1"
    own: dict[str, Any] = {**wanted.flags(layers, phase, tp, one_query=one_query), **sizes}
    return {**{key: value for key, value in own.items() if key not in rest and key not in drops}, **rest}


def _sizes(given: Given, phase: LayerPhase) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Batch and lengths, and the given flags from which they were taken. A length that is given alone is the context's."""
    usual: dict[str, Any] = dict(SIZES[phase])
    if phase is LayerPhase.DECODE:
        usual["seqlen"] = "1"
    lone = tuple(key for key in ("seqlen", "seqlen_k") if key in given)
    if len(lone) == 1 and not {"seqlens_q", "cache_seqlens"} & set(given):
        usual["seqlen_k" if phase is LayerPhase.DECODE else "seqlen"] = given[lone[0]]
        return usual, lone
    if "cache_seqlens" in given:
        usual.pop("seqlen_k", None)
    return usual, ()
