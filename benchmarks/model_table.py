"""Makes ``arch_specs/_model_types.json`` from the classes of the installed transformers, and compares the two.

    pip install "fmha[models]"
    python benchmarks/model_table.py          # writes the table, and tests/golden/model_calls.json
    python benchmarks/model_table.py --check  # compares the table with every class, and changes nothing

Every model_type of the release has a row: one with facts, one that names the member with the language model, or one that says why no
row of a problem can stand for its attention. A class whose calls could not be recorded, or whose facts were not found, is refused.
Recording takes half an hour on two processors; ``--samples DIR`` keeps what was recorded and goes on from it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import model_probe as probe
import model_rows as rows
import model_samples as samples
import model_types as types
import torch
import transformers
from transformers.models.auto import configuration_auto

from fmha_cli.discovery.model_config import Members, TypeRow, rows_of

ROOT = Path(__file__).parent.parent
TABLE, GOLDEN = ROOT / "arch_specs" / "_model_types.json", ROOT / "tests" / "golden" / "model_calls.json"
ABOUT = (
    "What the classes of transformers do with a configuration (config.json), by its model_type. facts: name of a fact of "
    "fmha_cli/domain/model.py -> a formula of members (fmha_cli/domain/formula.py), where i is the number of the layer and another fact's "
    "name is its value; scale, heads and head dims are those that the class hands to its attention function, or that its products have. as: the facts are those of that "
    "type. defaults: members that the class fills in. names: other names of members. refused: formula -> what is then true that no flag "
    "expresses. why: no row of a problem can stand for the attention. text, text_type: the member that holds the language model, and its type "
    "where it does not say. source: file and class in transformers. '*' is the row for a type that has none and says that it is a decoder: "
    "what it gives is assumed. benchmarks/model_table.py makes this file."
)
_INNER = ("text_config", "thinker_config", "language_config", "llm_config")
_LATENT = {"latent": "kv_lora_rank", "latent_rope": "qk_rope_head_dim"}
_LIMIT_S, _LIMIT_BYTES = 120, 3 << 30
"""The most processor time and address space for one class: some have no small form."""

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


def made(recorded: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The table.

    Args:
        recorded: model_type -> its samples and the places of its attention, as ``record`` gives them.
    """
    found: dict[str, Any] = {"*": dict(ANY)} | {kind: _row(kind, one) for kind, one in recorded.items()}
    _share(found)
    return {"schema": "fmha.model-types/2", "release": transformers.__version__, "about": ABOUT, "types": found}


def _row(kind: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    module = configuration_auto.model_type_to_module_name(kind)
    file = f"models/{module}/configuration_{module}.py, {configuration_auto.CONFIG_MAPPING_NAMES[kind]}"
    if kind in rows.WHY:
        return {"why": rows.WHY[kind], "source": file}
    inner = _inner(kind)
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


class _Late(BaseException):
    """A class took too long; no handler of its own errors may take this for one."""


def record(kind: str, folder: Path | None = None) -> dict[str, Any]:
    """The samples of a type, the places of its attention, and what could not be run.

    Args:
        folder: has what was recorded before, and gets what is recorded now.
    """
    file = folder / f"{kind}.json" if folder is not None else None
    if file is not None and file.exists():
        read = json.loads(file.read_text("utf-8"))
        calls = {text: probe.Call(**{**one, "seen": tuple(one["seen"])}) for text, one in read["calls"].items()}
        return {
            **read,
            "rows": [(what, members, [calls[one] for one in made_]) for what, members, made_ in read["rows"]],
        }
    found: dict[str, Any] = {"rows": [], "err": ""}
    probe.places()

    def late(*_: object) -> None:
        raise _Late

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, _LIMIT_S)
    try:
        if _inner(kind) is None and kind not in rows.WHY:
            for one in samples.samples(kind):
                found["rows"].append(one)
    except _Late:
        found = {"rows": [], "err": "TimeoutError: takes too long"}
    except Exception as fault:  # noqa: BLE001 - a class may fail in any way
        found["err"] = f"{fault}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    found["places"] = probe.places()
    if file is not None:
        calls = list(dict.fromkeys(call for _, _, made_ in found["rows"] for call in made_))
        number = {call: str(at) for at, call in enumerate(calls)}
        rows_ = [(what, members, [number[call] for call in made_]) for what, members, made_ in found["rows"]]
        text = {**found, "rows": rows_, "calls": {number[call]: asdict(call) for call in calls}}
        file.write_text(json.dumps(text), "utf-8")
    return found


def record_all(folder: Path | None) -> dict[str, dict[str, Any]]:
    """``record`` of every type, in as many processes as there are processors."""
    kinds = probe.kinds()
    with get_context("spawn").Pool(os.cpu_count(), _limit, maxtasksperchild=40) as pool:
        return dict(zip(kinds, pool.imap(partial(record, folder=folder), kinds), strict=True))


def _limit() -> None:
    torch.set_num_threads(1)  # the models are too small for more
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT_BYTES, _LIMIT_BYTES))


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
    """A configuration of each class with its calls, drawn with a seed from those that the table does not refuse."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--samples", type=Path, help="a folder that keeps what was recorded")
    asked = parser.parse_args()
    if asked.samples is not None:
        asked.samples.mkdir(parents=True, exist_ok=True)
    recorded = record_all(asked.samples)
    table = made(recorded)
    text = text_of(table)
    old = json.loads(TABLE.read_text("utf-8"))
    read = rows_of(old if asked.check else table)
    said, wrong = checked(read, recorded)
    for kind, how in wrong.items():
        print(f"{kind}: {how}")
    for fault, kinds in sorted(not_run(recorded).items()):
        print(f"not run, {len(kinds)}: {fault}: {', '.join(kinds)}")
    print(f"{dict(counts(table))}; {said}")
    if asked.check:
        other = [
            kind for kind in {*old["types"], *table["types"]} if old["types"].get(kind) != table["types"].get(kind)
        ]
        print(
            f"{len(other)} rows of the table are not what the classes give: {', '.join(sorted(other)[:20])}"
            if other
            else "the table is what the classes give"
        )
        raise SystemExit(bool(other or wrong))
    TABLE.write_text(text, "utf-8")
    lines = golden(read, recorded)
    calls = ",\n ".join(f"{json.dumps(kind)}: {json.dumps(one)}" for kind, one in lines["calls"].items())
    GOLDEN.write_text(
        f'{{"release": {json.dumps(lines["release"])}, "seqlen": {lines["seqlen"]}, "calls": {{\n {calls}\n}}}}\n',
        "utf-8",
    )
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
