"""The table of ``--model``: the row of a type from what its class did, the file, and how the classes and the table differ."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import transformers
from transformers.models.auto import configuration_auto

from fmha_cli.discovery.model_config import Members, TypeRow
from tests.support.model_classes import probe, rows, types

ABOUT = (
    "What the classes of transformers do with a configuration (config.json), by its model_type. facts: name of a fact of "
    "fmha_cli/domain/model.py -> a formula of members (fmha_cli/domain/formula.py), where i is the number of the layer and another fact's "
    "name is its value; scale, heads and head dims are those that the class hands to its attention function, or that its products have. as: the facts are those of that "
    "type. defaults: members that the class fills in. names: other names of members. refused: formula -> what is then true that no flag "
    "expresses. why: no row of a problem can stand for the attention. text, text_type: the member that holds the language model, and its type "
    "where it does not say. source: file and class in transformers. '*' is the row for a type that has none and says that it is a decoder: "
    "what it gives is assumed. tests/checks/model_table.py makes this file."
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


def made(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The table of some rows of types."""
    found: dict[str, Any] = {"*": dict(ANY), **rows}
    _share(found)
    return {"schema": "fmha.model-types/2", "release": transformers.__version__, "about": ABOUT, "types": found}


def type_row(kind: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a type.

    Args:
        recorded: its samples and the places of its attention.
    """
    module = configuration_auto.model_type_to_module_name(kind)
    file = f"models/{module}/configuration_{module}.py, {configuration_auto.CONFIG_MAPPING_NAMES[kind]}"
    if kind in rows.WHY:
        return {"why": rows.WHY[kind], "source": file}
    inner = inner_of(kind)
    if inner is not None:
        return {"text": inner[0], "text_type": inner[1], "source": file}
    why = _why(kind, recorded)
    if why:
        return {"why": why, "source": next(iter(recorded["places"]), file)}
    plain = [one for one in recorded["rows"] if not any(call.other for call in one[2])]
    fit = types.Fit(kind, plain, rows.BY_HAND.get(kind, {}))
    fault = fit.found()
    row = TypeRow(**_plain(fit.row(), "class"))
    found = [types.difference(row, kind, members, calls) for _, members, calls in recorded["rows"]]
    if fault or any(text and not text.startswith("refused") for text in found) or all(found):
        print(f"{kind}: {fault or next(filter(None, found))}")
        return {"why": "no formula of its members gives the calls that its class made", "source": file}
    if row.facts["hdim"] == "qk_nope_head_dim + qk_rope_head_dim" and "kv_lora_rank" in fit.fields:
        fit.facts |= _LATENT
    if fit.fields.get("is_encoder_decoder") is True:
        fit.refused |= {"is_encoder_decoder": "an encoder and a decoder"}
    return _plain(fit.row(), next(iter(recorded["places"])))


def _why(kind: str, recorded: Mapping[str, Any]) -> str:
    """Why no row of a problem can stand for the calls of a class; empty where one may."""
    refused = rows.BY_HAND.get(kind, {}).get("refused", {})
    calls = []
    for _, members, made_ in recorded["rows"]:
        given = Members(members, TypeRow("", defaults=probe.members_of(kind)), kind)
        calls += [] if any(given.of(formula) for formula in refused) else made_
    other = next((call.other for call in calls if call.other), "")
    if other:
        return f"{other}, which no flag expresses"
    if not calls and getattr(probe.config_class(kind), "is_encoder_decoder", False) is True:
        return "an encoder and a decoder, of which no row is both"
    if not recorded["rows"]:
        return _ALONE
    return "" if calls else "no layer has softmax attention: a forward run of its class showed none"


_ALONE = "its attention is not known: the class could not be run on a prompt, an image or sound alone"


def inner_of(kind: str) -> tuple[str, str] | None:
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


def checked(table: Mapping[str, TypeRow], recorded: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, str]]:
    """The counts of a comparison in one line, and how classes and table differ."""
    counted: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for kind, one in recorded.items():
        row = table[kind]
        ways = set(one["places"].values())
        by = "interface" if "interface" in ways or (not ways and probe.has_interface(kind)) else "hooks" if ways else ""
        counted["nested"] += bool(row.text)
        if row.text or not by:
            counted["no attention seen"] += not row.text
            continue
        counted[by] += 1
        if not row.facts:
            counted[f"{by}: {'not run' if row.why == _ALONE or not one['places'] else 'refused'}"] += 1
            continue
        counted[f"{by}: compared"] += 1
        counted[f"{by}: on meta"] += any(what in ("defaults", "tiny, meta") for what, _, _ in one["rows"])
        for what, members, calls in one["rows"]:
            text = types.difference(row, kind, members, calls)
            counted[f"{by}: configurations"] += 1
            counted[f"{by}: refused configurations"] += text.startswith("refused")
            if text and not text.startswith("refused"):
                wrong[kind] = f"{what}: {text}"
        counted[f"{by}: differ"] += kind in wrong
    said = [
        f"{name}: {counted[by]}, compared {counted[f'{by}: compared']} ({counted[f'{by}: on meta']} on the meta device, "
        f"{counted[f'{by}: configurations']} configurations, {counted[f'{by}: refused configurations']} of them refused), "
        f"{counted[f'{by}: differ']} differ; refused {counted[f'{by}: refused']}, not run alone {counted[f'{by}: not run']}"
        for by, name in (("interface", "classes with an attention function"), ("hooks", "without one, hooked"))
    ]
    rest = f"nested {counted['nested']}, no attention seen {counted['no attention seen']}"
    return f"{len(recorded)} types; {'; '.join(said)}; {rest}", wrong


def not_run(recorded: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The types of which no call was recorded, by the kind of fault."""
    found: dict[str, list[str]] = {}
    for kind, one in recorded.items():
        if one["err"] and not one["rows"]:
            fault = re.search(r"\b[A-Z]\w*(?:Error|Recorded)\b(?:: takes|: no class)?", one["err"])
            found.setdefault(fault[0] if fault else "NotRecorded: takes", []).append(kind)
    return found


def golden(table: Mapping[str, TypeRow], recorded: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A configuration of each class with its calls, drawn with a seed from the configurations that the table does not
    refuse.
    """
    draw = random.Random(24)
    chosen: dict[str, Any] = {}
    for kind, one in sorted(recorded.items()):
        row = table[kind]
        good = [
            (members, calls)
            for what, members, calls in one["rows"]
            if row.facts and what != "defaults" and not types.difference(row, kind, members, calls)
        ]
        if good:
            members, calls = draw.choice(good)
            chosen[kind] = {"members": members, "calls": listed(calls)}
    return {"release": transformers.__version__, "seqlen": probe.SEQLEN, "calls": chosen}


def listed(calls: Sequence[probe.Call]) -> list[list[Any]]:
    """Calls as the golden file has them: heads, key/value heads, head dims, scale, cap, sinks, slopes, keys seen, how often."""
    counted = Counter(replace(call, scale=types.rounded(call.scale)) for call in calls)
    return sorted(
        (
            [*(list(v) if isinstance(v, tuple) else v for v in list(vars(one).values())[:-1]), times]
            for one, times in counted.items()
        ),
        key=repr,
    )


def counts(table: Mapping[str, Any]) -> Counter[str]:
    """The types by what their rows are."""
    return Counter(
        "facts" if "facts" in row or "as" in row else "nested" if "text" in row else "refused"
        for kind, row in table["types"].items()
        if kind != "*"
    )
