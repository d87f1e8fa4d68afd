"""Configurations of models as files, and what is read from them in one line."""

from __future__ import annotations

import json
from pathlib import Path

from fmha_cli.discovery.model_config import read_config
from fmha_cli.domain.layer import LayerPhase
from fmha_cli.domain.model import Model
from fmha_cli.domain.problem import Problem


def read(config: object, folder: Path) -> tuple[Model, str]:
    """The content of a configuration, through a file, and the note on its assumptions."""
    path = folder / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    return read_config(path, "./config.json")


def told(found: tuple[Model, str]) -> str:
    """Heads, head dims, the mask and the number of calls of each kind of layer, and what is done to the scores."""
    model, _ = found
    problems = [Problem.of(**{**model.flags(one, LayerPhase.PREFILL), "seqlen": 32}) for one in model.layers]
    shapes = [f"h{p.heads}/{p.kv_heads} d{p.hdim}" + ("" if p.hdim == p.hdim_v else f"/{p.hdim_v}") for p in problems]
    kinds = [f"{p.mask.text()} x{one.count}" for p, one in zip(problems, model.layers, strict=True)]
    kinds[0] = f"{shapes[0]} {kinds[0]}"
    kinds[1:] = [
        kind if shape == shapes[0] else f"{shape} {kind}" for shape, kind in zip(shapes[1:], kinds[1:], strict=True)
    ]
    first = problems[0]
    parts = [", ".join(kinds)] + ([f"cap{first.softcap:g}"] if first.softcap else [])
    parts += [f"scale{first.scale}"] if first.scale != first.hdim**-0.5 else []
    parts += ["sinks"] if first.sink_logits else []
    return " ".join(parts + (["alibi"] if first.alibi.value != "none" else []))
