"""Configurations for comparing the classes of transformers with the table of ``--model``: each member changed alone,
and some changed together.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tests.support.model_classes import probe

TINY: Mapping[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "entity_vocab_size"), 97),
    "hidden_size_per_layer_input": 8,
    **dict.fromkeys(
        (
            "hidden_size",
            "n_embd",
            "d_model",
            "emb_dim",
            "dim",
            "width",
            "embed_dim",
            "hidden_dim",
            "encoder_hidden_size",
        ),
        64,
    ),
    **dict.fromkeys(
        (
            "intermediate_size",
            "ffn_dim",
            "n_inner",
            "dff",
            "ffn_hidden_size",
            "decoder_ffn_dim",
            "mlp_hidden_size",
            "d_inner",
        ),
        48,
    ),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "depth", "num_blocks", "n_blocks"),
        7,
    ),
    "encoder_layers": 2,
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads"), 4
    ),
    "encoder_attention_heads": 2,
    **dict.fromkeys(("num_key_value_heads", "swa_num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "encoder_ffn_dim"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k"), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), 64),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "head_dim": 16,
    "pad_token_id": 0,
    **dict.fromkeys(
        ("mamba_n_heads", "mamba_num_heads", "mamba_chunk_size", "mamba_d_state", "chunk_size", "n_mamba_heads"), 8
    ),
    "mamba_head_dim": 16,
    "image_size": 32,
    "patch_size": 8,
}
WINDOW = 9
"""Keys in the windows of tiny models: fewer than the prompt has."""

_IDLE = re.compile(
    "token|is_causal|vocab|remove_invalid|local_files|generation|is_encoder_decoder|tensor_parallel|drop|eps$|init|_act|intermediate|expert|router|cache|tie_|mlp|moe|loss|problem|label|architectures|output_|return_"
    "|dtype|position|rope|prob|chunk_size|transformers|_name|pretrain|ssm|mamba_(?!.*layer)|conv|hc_|freq|summary|rank$|topk|norm_|adapter|_ids?$"
    "|image|audio|vision|codebook|quant"
)
"""In the names of members that no attention depends on; all others are changed."""


_SECTIONS = ([2, 3, 3], [1, 1, 2], [2, 2, 2, 2], [4, 6, 6])
"""Parts of rotary tables for time, height and width."""


@cache
def tiny(kind: str) -> Mapping[str, Any]:
    """The members of a small model of a type: the first that can be run of those with small parts for other media, with rotary tables
    in several sections, and without either."""
    small = _small(kind)
    parts = getattr(probe.config_class(kind), "sub_configs", None) or {}
    kinds = {name: getattr(one, "model_type", "") for name, one in parts.items()}
    inner = {
        name: {**_small(one), "model_type": one} for name, one in kinds.items() if one in probe.kinds() and one != kind
    }
    tries = [{**small, **inner, **FIXED.get(kind, {})}] if inner else []
    if "rope_parameters" not in small and "mrope_section" in probe.source_of(kind):
        rope = {"rope_type": "default", "rope_theta": 10000.0}
        tries += [{**small, "rope_parameters": {**rope, "mrope_section": one}} for one in _SECTIONS]
    for tried in tries:
        with contextlib.suppress(probe.NotRecorded):
            probe.calls_of(kind, tried, ("cpu",))
            return tried
    return small


def _small(kind: str) -> dict[str, Any]:
    members = probe.members_of(kind)
    config = probe.config_class(kind)
    small = {
        name: value
        for name, value in TINY.items()
        if name in members and not isinstance(getattr(config, name, None), property)
    }
    small |= {"head_dim": small["qk_rope_head_dim"]} if {"head_dim", "qk_rope_head_dim"} <= set(small) else {}
    small |= {"is_encoder_decoder": False} if members.get("is_encoder_decoder") else {}
    small |= {
        name: WINDOW
        for name in members
        if re.fullmatch("(sliding_window|attention_window_size|window_size|sliding_window_size|local_attention)", name)
        and members[name]
    }
    return small | FIXED.get(kind, {})


FIXED: Mapping[str, dict[str, Any]] = {
    "gemma3n_text": {"num_hidden_layers": 12, "num_kv_shared_layers": 2, "layer_types": None},
    "axk1": {"num_key_value_heads": 4},
    "dots3_note_text": {"num_key_value_heads": 4},
    "glm5_next_text": {"num_key_value_heads": 4},
    "qwen4_exp_text": {"num_key_value_heads": 2},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
    "step3p5": {"sliding_window": WINDOW},
    "xmod": {"default_language": "en_XX"},
    "ernie4_5_vl_moe_text": {"moe_intermediate_size": [16, 16]},
    "diffusion_gemma_text": {"top_k_experts": 2},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 16},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] + ["sparse"] * 6},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 3 + ["sliding_attention"],
        "rope_parameters": {
            one: {"rope_type": "default", "rope_theta": 10000.0} for one in ("full_attention", "sliding_attention")
        },
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "zaya": {"num_experts_per_tok": 1},
    "big_bird": {"attention_type": "original_full"},
    "codegen": {"rotary_dim": 8},
    "gptj": {"rotary_dim": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 3 + ["conv"]},
    "nemotron_h": {"layers_block_type": ["mamba", "attention", "moe", "mlp", "attention"]},
    "bamba": {"attn_layer_indices": [1, 4]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 3 + ["mamba"]},
    "gpt_neo": {"attention_types": [[["global", "local"], 3]], "num_layers": 6},
    "mllama_text_model": {"cross_attention_layers": [2, 4], "num_hidden_layers": 7},
    "zamba": {"num_hidden_layers": 12},
    "zamba2": {"num_hidden_layers": 54},
    "hrm_text": {"num_hidden_layers": 2},
    "inkling_text": {"local_layer_ids": [0, 1, 3]},
}
"""Members without which the tiny model of a type cannot be made."""


def changes(kind: str, base: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The members of a type that any attention may depend on, and the other names of these, each with values in place of its own."""
    config = probe.config_class(kind)(**base)
    found = {name: _changed(name, _own(config, name)) for name in probe.members_of(kind) if not _IDLE.search(name)}
    for alias, native in config.attribute_map.items():
        if native in found and isinstance(_own(config, native), int):
            found[alias] = found[native]
    return {name: values for name, values in found.items() if values}


def divides(members: Mapping[str, Any]) -> bool:
    """Whether the heads divide the width; some classes do not ask, and then have other heads than they say."""
    widths, heads = (
        [members[name] for name in names if isinstance(members.get(name), int)]
        for names in (
            ("hidden_size", "n_embd", "d_model", "emb_dim"),
            ("num_attention_heads", "n_head", "n_heads", "num_heads"),
        )
    )
    return all(width % number == 0 for width in widths for number in heads)


def _own(config: Any, name: str) -> Any:
    """A member as a configuration has it; None where it has none for all layers."""
    try:
        return getattr(config, name, None)
    except Exception:  # noqa: BLE001 - members that differ from layer to layer cannot be asked for
        return config.__dict__.get(name)


def _changed(name: str, value: Any) -> list[Any]:
    if name == "position_embedding_type":
        return ["relative_key", "relative_key_query", "rotary"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [v for v in (2 * value, 3 * value, value // 2, value + 1) if v > 0]
    if isinstance(value, float):
        return [value * 0.75]
    if isinstance(value, list | tuple):
        back = list(reversed(value))
        return [back] if back != list(value) else [] if value else [[0, 2]]
    if value is None:
        if re.search("scalar|multipl|scale|cap", name):
            return [0.375]
        if re.search("heads", name):
            return [4, 2, 1]
        if re.search("pattern|interval", name):
            return [3, 2]
        if re.search("window|size|dim|channels", name):
            return [8, 16]
        if re.search("layers$|idxs?$|ind(ic|ex)es$|blocks$", name):
            return [[0, 2]]
        return [True] if re.match("(use|is|has|enable)_", name) else []
    return []


FOREIGN: Mapping[str, Any] = {
    "head_dim": 40,
    "num_key_value_heads": 1,
    "sliding_window": 5,
    "attention_multiplier": 0.3,
    "attn_logit_softcapping": 7.0,
    "query_pre_attn_scalar": 3,
    "attention_sinks": True,
    "alibi": True,
    "v_head_dim": 20,
}
"""Members that other classes read; a class that does not ask for them has them all in one of its configurations."""

ASKED: Mapping[str, Any] = {
    "sliding_window": 5,
    "use_sliding_window": True,
    "max_window_layers": 2,
    "attention_window_size": 5,
    "attention_multiplier": 0.3,
    "attn_logit_softcapping": 7.0,
    "query_pre_attn_scalar": 3,
    "use_bidirectional_attention": True,
    "is_decoder": True,
}
"""Members that change the attention of the classes that read them, each of which a class has in one of its configurations."""


def asked(kind: str, base: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[probe.Call]]]:
    """The tiny model with these members, first all that the class has, then each alone."""
    known = {*probe.members_of(kind), *probe.config_class(kind).attribute_map}
    here = {name: value for name, value in ASKED.items() if name in known}
    aliases = probe.config_class(kind).attribute_map
    base = {name: value for name, value in base.items() if name not in {aliases.get(one) for one in here}}
    windows = {name: value for name, value in here.items() if "window" in name}
    for what, more in [
        ("all asked", here),
        ("windows", windows),
        *((name, {name: value}) for name, value in here.items()),
    ]:
        try:
            yield what, {**base, **more}, probe.calls_of(kind, {**base, **more}, ("cpu", "meta"))
        except probe.NotRecorded:
            continue


ROUNDS = 3
"""Configurations of a type in which many members are changed at once, if they can be run."""


def samples(kind: str) -> Iterator[tuple[str, dict[str, Any], list[probe.Call]]]:
    """The configurations of a type that can be run: what was changed, the members, and the calls. ``defaults`` has no members: the full
    size, on the meta device. A class without attention, or whose attention no flag expresses, has one."""
    base = dict(tiny(kind))
    first = probe.calls_of(kind, base, ("cpu", "meta"))
    yield "tiny", base, first
    if not first or any(call.other for call in first):
        return
    with contextlib.suppress(probe.NotRecorded):
        yield "defaults", {}, probe.calls_of(kind, {}, ("meta",))
    with contextlib.suppress(probe.NotRecorded):
        yield "tiny, meta", base, probe.calls_of(kind, base, ("meta",))
    yield from larger(kind, base)
    known = {*probe.members_of(kind), *probe.config_class(kind).attribute_map}
    foreign = {**base, **{name: value for name, value in FOREIGN.items() if name not in known}}
    yield "foreign members", foreign, probe.calls_of(kind, foreign, ("cpu", "meta"))
    yield from left(kind, base)
    yield from asked(kind, base)
    draw, free = random.Random(kind), changes(kind, base)
    yield from alone(kind, base, free)
    aliases = probe.config_class(kind).attribute_map
    for number in range(ROUNDS):
        for share in (1.0, 0.4, 0.2, 0.1):
            names = [name for name in free if draw.random() <= share]
            mixed = {**base, **{name: draw.choice(free[name]) for name in names}}
            if "qk_rope_head_dim" in mixed and "head_dim" in mixed:
                mixed["head_dim"] = mixed["qk_rope_head_dim"]  # else rotary tables do not fit
            for alias in set(aliases) & set(names):
                mixed.pop(aliases[alias], None)  # which of two names counts is the class's affair
            if number % 2:  # some members are left to the class
                mixed = {
                    name: value
                    for name, value in mixed.items()
                    if name in FIXED.get(kind, {}) or not _LEFT.search(name) or draw.random() < 0.7
                }
            try:
                calls = probe.calls_of(kind, mixed, ("cpu", "meta"))
            except probe.NotRecorded:
                continue
            if all(call.heads % call.kv_heads == 0 for call in calls) and divides(mixed):
                yield f"mixed {number}", mixed, calls
                break


def alone(
    kind: str, base: Mapping[str, Any], free: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, dict[str, Any], list[probe.Call]]]:
    """The tiny model with each member changed alone, switches and lists in every way: what no flag expresses hides behind one, and two
    numbers that are equal by chance are told apart."""
    aliases = probe.config_class(kind).attribute_map
    for name, values in free.items():
        kept = {one: value for one, value in base.items() if one != aliases.get(name) and aliases.get(one) != name}
        switch = isinstance(values[0], bool | str | list)
        for value in values if name not in ASKED else ():
            with contextlib.suppress(probe.NotRecorded):
                members = {**kept, name: value}
                calls = probe.calls_of(kind, members, ("cpu", "meta"))
                if all(call.heads % call.kv_heads == 0 for call in calls) and divides(members):
                    yield f"{name} alone", members, calls
                    if not switch:
                        break


def larger(kind: str, base: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[probe.Call]]]:
    """A larger image or a longer sound, in which windows would be seen that are as large as the first."""
    if probe.takes_tokens(kind):
        return
    more = {"image_size": 2 * base["image_size"]} if isinstance(base.get("image_size"), int) else {}
    for members, times in (({**base, **more}, 2 - bool(more)), (dict(base), 2)):
        with contextlib.suppress(probe.NotRecorded):
            yield "larger", members, probe.calls_of(kind, members, ("cpu", "meta"), times)
            return


_LEFT = re.compile("head_dim$|key_value_heads$|kv_heads$|kv_channels|window|scalar|multiplier|qk_head_dim|layer_types")


def left(kind: str, base: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[probe.Call]]]:
    """The tiny model without the members that a class can fill in, and with null in their place, alone and together."""
    names = [
        name
        for name in probe.members_of(kind)
        if _LEFT.search(name) and name not in FIXED.get(kind, {}) and not name.startswith(("swa", "qk_", "linear"))
    ]
    kept = {name: value for name, value in base.items() if name not in names}
    tries = [("missing", kept), ("null", {**kept, **dict.fromkeys(names)})]
    for what, members in tries:
        try:
            calls = probe.calls_of(kind, members, ("cpu", "meta"))
        except probe.NotRecorded:
            continue
        if all(call.heads % call.kv_heads == 0 for call in calls):
            yield what, members, calls
