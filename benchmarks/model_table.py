"""Makes ``arch_specs/_model_types.json`` from the classes of the installed transformers, and says how many rows are of which kind.

    pip install "fmha[models]"
    python benchmarks/model_table.py          # writes the table
    python benchmarks/model_table.py --check  # compares it, and changes nothing

Every model_type of the release has a row: one with facts, one that names the member with the language model, or one that says why no
row of a problem can stand for its attention. A class whose calls could not be recorded, or whose facts were not found, is refused.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import model_probe as probe
import model_rows as rows
import model_samples as samples
import model_types as types
import transformers
from transformers.models.auto import configuration_auto

TABLE = Path(__file__).parent.parent / "arch_specs" / "_model_types.json"
ABOUT = (
    "What the classes of transformers do with a configuration (config.json), by its model_type. facts: name of a fact of "
    "fmha_cli/domain/model.py -> a formula of members (fmha_cli/domain/formula.py), where i is the number of the layer and another fact's "
    "name is its value; scale, heads and head dims are those that the class hands to its attention function. as: the facts are those of that "
    "type. defaults: members that the class fills in. names: other names of members. refused: formula -> what is then true that no flag "
    "expresses. why: no row of a problem can stand for the attention. text, text_type: the member that holds the language model, and its type "
    "where it does not say. source: file and class in transformers. '*' is the row for a type that has none and says that it is a decoder: "
    "what it gives is assumed. benchmarks/model_table.py makes this file."
)
_INNER = ("text_config", "thinker_config", "language_config", "llm_config")
_LATENT = {"latent": "kv_lora_rank", "latent_rope": "qk_rope_head_dim"}

ANY: Mapping[str, Any] = {
    "source": "no class: the members that decoders usually have",
    "defaults": {},
    "facts": {
        "layers": "num_hidden_layers or n_layer or n_layers or num_layers or decoder_layers",
        "heads": "num_attention_heads or n_head or n_heads or num_heads or attention_heads or decoder_attention_heads",
        "width": "hidden_size or n_embd or d_model or emb_dim",
        "kv_heads": "num_key_value_heads or num_kv_heads or (heads if kv_lora_rank is None else heads)",
        "hdim": "qk_nope_head_dim + qk_rope_head_dim if kv_lora_rank is not None else head_dim or kv_channels or width // heads",
        "hdim_v": "v_head_dim or hdim",
        "layer": "layer_types[i] if layer_types else 'sliding_attention' if sliding_window is not None and use_sliding_window is not False and "
        "((i + 1) % sliding_window_pattern if sliding_window_pattern else True) else 'full_attention'",
        "attends": "True if layer in ('full_attention', 'attention', 'sliding_attention') else False if layer in ('linear_attention', 'conv', 'mamba', "
        "'recurrent') else None",
        "window": "sliding_window if layer == 'sliding_attention' else None",
        "scale": "attention_multiplier if attention_multiplier is not None else query_pre_attn_scalar ** -0.5 if query_pre_attn_scalar is not None else "
        "hdim ** -0.5",
        "softcap": "attn_logit_softcapping",
        "alibi": "alibi",
    },
    "refused": {
        "is_encoder_decoder": "an encoder and a decoder",
        "attention_chunk_size": "attention within chunks",
        "index_topk": "sparse attention, to the keys that an indexer picks",
        "compress_ratios": "attention to compressed keys",
        "layers_block_type or hybrid_override_pattern or attn_layer_indices or block_types or full_attention_interval": "blocks of kinds that are not known",
        "attn_config": "settings of attention that are not known",
        "num_query_heads": "heads that differ from layer to layer",
        "is_causal == False or use_bidirectional_attention in (True, 'all')": "queries that see the keys behind them",
    },
}


def made(recorded: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """The table, and why some types have no facts.

    Args:
        recorded: model_type -> its samples and the places of its attention, as ``record`` gives them.
    """
    found: dict[str, Any] = {"*": dict(ANY)}
    lacking: dict[str, str] = {}
    for kind in probe.kinds():
        found[kind] = _row(kind, recorded.get(kind, {"rows": [], "places": []}), lacking)
    _share(found)
    return {
        "schema": "fmha.model-types/2",
        "release": transformers.__version__,
        "about": ABOUT,
        "types": found,
    }, lacking


def _row(kind: str, recorded: Mapping[str, Any], lacking: dict[str, str]) -> dict[str, Any]:
    module = configuration_auto.model_type_to_module_name(kind)
    file = f"models/{module}/configuration_{module}.py, {configuration_auto.CONFIG_MAPPING_NAMES[kind]}"
    if kind in rows.WHY:
        return {"why": rows.WHY[kind], "source": file}
    inner = _inner(kind)
    if inner is not None:
        return {"text": inner[0], "text_type": inner[1], "source": file}
    given = rows.BY_HAND.get(kind, {})
    made_ = [(what, members, calls) for what, members, calls in recorded["rows"]]
    if kind in rows.READ:
        return _plain(types.Fit(kind, [], rows.READ[kind]).row(), str(rows.READ[kind]["read"]))
    if not made_:
        lacking[kind] = str(recorded.get("err") or "nothing was recorded")
        return {"why": _unknown(kind), "source": file}
    if any(call.sparse for _, _, calls in made_ for call in calls):
        return {"why": "sparse attention, to the keys that an indexer picks, which no flag expresses", "source": file}
    if not any(calls for _, _, calls in made_):
        lacking[kind] = "no attention function was called"
        return {"why": _unknown(kind), "source": file}
    fit = types.Fit(kind, made_, given)
    fault = fit.found()
    row = fit.row()
    found = [types.difference(row, kind, members, calls) for _, members, calls in made_]
    wrong = [text for text in found if text and not text.startswith("refused")] or (found if all(found) else [])
    if fault or wrong:
        lacking[kind] = fault or wrong[0]
        return {"why": _unknown(kind), "source": file}
    if row.facts["hdim"] == "qk_nope_head_dim + qk_rope_head_dim" and "kv_lora_rank" in fit.fields:
        fit.facts |= _LATENT
    if fit.fields.get("is_encoder_decoder") is True:
        fit.refused |= {"is_encoder_decoder": "an encoder and a decoder"}
    return _plain(fit.row(), recorded["places"][0])


def _unknown(kind: str) -> str:
    if getattr(probe.config_class(kind), "is_encoder_decoder", False) is True:
        return "an encoder and a decoder, of which no row is both"
    return "its attention is not known: the class could not be run on one prompt of tokens"


def _inner(kind: str) -> tuple[str, str] | None:
    """The member with the language model, and the type that it has if it does not say."""
    config = probe.config_class(kind)
    subs = getattr(config, "sub_configs", None) or {}
    name = next((one for one in _INNER if one in subs), None)
    if name is None:
        return None
    try:
        inner = getattr(config(), name)
    except Exception:  # noqa: BLE001 - a class that cannot be made without members
        return name, ""
    return name, str(getattr(inner, "model_type", ""))


_IDLE = {
    "hdim_v": "hdim",
    "scale": "hdim ** -0.5",
    "softcap": "None",
    "sink_logits": "False",
    "alibi": "False",
    "window": "None",
    "causal": "True",
}
"""Formulas that say what the absence of the fact says."""


def _plain(row: Any, source: str) -> dict[str, Any]:
    facts = {name: formula for name, formula in row.facts.items() if _IDLE.get(name) != formula}
    data = {
        "facts": facts,
        "defaults": dict(row.defaults),
        "names": dict(row.names),
        "refused": dict(row.refused),
        "source": source,
    }
    return {name: value for name, value in data.items() if value}


def _share(found: dict[str, Any]) -> None:
    """Facts that several types have are written once."""
    first: dict[str, str] = {}
    for kind, row in found.items():
        if "facts" not in row:
            continue
        text = json.dumps(row["facts"], sort_keys=True)
        if text in first:
            found[kind] = {"as": first[text], **{name: value for name, value in row.items() if name != "facts"}}
        else:
            first[text] = kind


def text_of(table: Mapping[str, Any]) -> str:
    """The file: one line for each type."""
    head = ",\n ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in table.items() if name != "types")
    lines = ",\n  ".join(f"{json.dumps(kind)}: {json.dumps(row)}" for kind, row in table["types"].items())
    return f'{{\n {head},\n "types": {{\n  {lines}\n }}\n}}\n'


def record(kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The samples of some types."""
    found: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        probe.places()
        try:
            found[kind] = {"rows": list(samples.samples(kind))}
        except Exception as fault:  # noqa: BLE001 - a class may fail in any way
            found[kind] = {"rows": [], "err": f"{type(fault).__name__}: {fault}"[:300]}
        found[kind]["places"] = probe.places()
    return found


def counts(table: Mapping[str, Any]) -> Counter[str]:
    """The types by what their rows are."""
    return Counter(
        "facts" if "facts" in row or "as" in row else "nested" if "text" in row else "refused"
        for row in table["types"].values()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    asked = parser.parse_args()
    table, lacking = made(record(probe.kinds()))
    for kind, why in lacking.items():
        print(f"{kind}: {why}")
    print(dict(counts(table)))
    if asked.check:
        raise SystemExit(TABLE.read_text("utf-8") != text_of(table))
    TABLE.write_text(text_of(table), "utf-8")


if __name__ == "__main__":
    main()
