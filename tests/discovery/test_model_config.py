"""Configurations of each family, written by hand with the members that matter, and what is read from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.discovery.model_config import Members, read_config, read_members
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.layer import LayerPhase
from fmha_cli.domain.problem import Problem
from tests.support.generators.model_texts import read, told

Config = Mapping[str, Any]

LLAMA: Config = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
GQA: Config = {**LLAMA, "num_key_value_heads": 8}
QWEN2: Config = {**GQA, "model_type": "qwen2", "max_window_layers": 20, "sliding_window": 4096}
QWEN3: Config = {**GQA, "model_type": "qwen3", "hidden_size": 5120, "num_attention_heads": 64, "head_dim": 128}
GEMMA2: Config = {
    "model_type": "gemma2",
    "hidden_size": 4608,
    "num_hidden_layers": 46,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "query_pre_attn_scalar": 144,
    "sliding_window": 4096,
}
GEMMA3_4B: Config = {
    "model_type": "gemma3",
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16},
}
"""As published: what its class fills in is not in the file."""

GEMMA3_27B: Config = {
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 5376,
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "query_pre_attn_scalar": 168,
        "sliding_window": 1024,
    },
}
GEMMA4: Config = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size": 2816,
        "num_hidden_layers": 6,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": 2,
        "attention_k_eq_v": True,
        "sliding_window": 1024,
        "use_bidirectional_attention": "vision",
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    },
}
GPT_OSS: Config = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
DEEPSEEK: Config = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0},
}
NEW: Config = {**GQA, "model_type": "newcomer", "architectures": ["NewForCausalLM"]}
"""Of a class that no table knows."""

NEXT: Config = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
}
FAMILIES: Mapping[str, tuple[Config, str]] = {
    "llama": (LLAMA, "h32/32 d128 causal x32"),
    "llama with groups": (GQA, "h32/8 d128 causal x32"),
    "null is null": ({**LLAMA, "num_key_value_heads": None, "head_dim": None}, "h32/32 d128 causal x32"),
    "gpt2": ({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}, "h12/12 d64 causal x12"),
    "falcon": ({**LLAMA, "model_type": "falcon", "multi_query": True}, "h32/1 d128 causal x32"),
    "mistral": ({**GQA, "model_type": "mistral"}, "h32/8 d128 window:4095,0 x32"),
    "mistral without its window": ({**GQA, "model_type": "mistral", "sliding_window": None}, "h32/8 d128 causal x32"),
    "mixtral": ({**GQA, "model_type": "mixtral"}, "h32/8 d128 causal x32"),
    "qwen2, window off": ({**QWEN2, "use_sliding_window": False}, "h32/8 d128 causal x32"),
    "qwen2, window off by default": (QWEN2, "h32/8 d128 causal x32"),
    "qwen2, window on": ({**QWEN2, "use_sliding_window": True}, "h32/8 d128 window:4095,0 x12, causal x20"),
    "qwen3": (QWEN3, "h64/8 d128 causal x32"),
    "qwen3 by its default": ({k: v for k, v in QWEN3.items() if k != "head_dim"}, "h64/8 d128 causal x32"),
    "phi3": ({**LLAMA, "model_type": "phi3", "sliding_window": 2047}, "h32/32 d128 window:2046,0 x32"),
    "gemma2": (GEMMA2, f"h32/16 d128 window:4095,0 x23, causal x23 cap50 scale{144**-0.5}"),
    "gemma3, all by default": (GEMMA3_4B, "h8/4 d256 window:1023,0 x29, causal x5"),
    "gemma3": (GEMMA3_27B, f"h32/16 d128 window:1023,0 x52, causal x10 scale{168**-0.5}"),
    "gemma4": (GEMMA4, "h16/8 d256 window:1023,0 x5, h16/2 d512 causal x1 scale1.0"),
    "gpt_oss": (GPT_OSS, "h64/8 d64 window:127,0 x2, causal x2 sinks"),
    "gpt_oss by its default": ({k: v for k, v in GPT_OSS.items() if k != "layer_types"}, "h64/8 d64 window:127,0 x2, causal x2 sinks"),
    "olmo3": ({**GQA, "model_type": "olmo3"}, "h32/8 d128 window:4095,0 x24, causal x8"),
    "cohere2": ({**GQA, "model_type": "cohere2", "sliding_window_pattern": 2}, "h32/8 d128 window:4095,0 x16, causal x16"),
    "deepseek": (DEEPSEEK, f"h128/128 d192/128 causal x61 scale{192**-0.5 * (0.1 * math.log(40) + 1) ** 2}"),
    "deepseek without yarn": ({**DEEPSEEK, "rope_scaling": None}, "h128/128 d192/128 causal x61"),
    "layers without attention": (NEXT, "h16/2 d256 causal x12"),
    "granite": ({**GQA, "model_type": "granite", "attention_multiplier": 0.0078125}, "h32/8 d128 causal x32 scale0.0078125"),
}  # fmt: skip
"""Each family: a configuration, and the problems that it makes in prefill."""


@pytest.mark.promise("`--model` gives a row for each kind of layer, and the sum counts every layer or says it cannot.")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_configuration_of_each_family(family: str, tmp_path: Path) -> None:
    config, expected = FAMILIES[family]
    assert told(read(config, tmp_path)) == expected


@pytest.mark.parametrize(
    ("family", "ignored"),
    [
        ("qwen3", "head_dim"),
        ("gemma3", "num_key_value_heads"),
        ("gemma2", "query_pre_attn_scalar"),
        ("gemma4", "global_head_dim"),
        ("gpt_oss", "sliding_window"),
        ("deepseek", "v_head_dim"),
        ("phi3", "sliding_window"),
        ("mistral without its window", "sliding_window"),
        ("qwen2, window on", "use_sliding_window"),
        ("cohere2", "sliding_window_pattern"),
    ],
)
def test_a_reader_that_ignores_a_member_is_caught(
    family: str, ignored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: the member is not seen."""
    honest = Members.member

    def planted(self: Members, name: str) -> Any:
        if name == ignored and self.given.get(ignored, 0) is None:
            return self.row.defaults.get(name, 1)  # a null that is taken for a missing member
        return None if name == ignored else honest(self, name)

    monkeypatch.setattr(Members, "member", planted)
    config, expected = FAMILIES[family]
    with suppress(UsageError):  # refusing is as good
        assert told(read(config, tmp_path)) != expected


def test_every_fact_says_which_member_it_is_from(tmp_path: Path) -> None:
    facts = read(GEMMA3_4B, tmp_path)[0].facts
    assert facts["layers"].source == "text_config.num_hidden_layers"
    assert "text_config.sliding_window" in facts["window"].source
    assert facts["heads"].source.startswith(
        "num_attention_heads, default of gemma3_text (models/gemma3/modeling_gemma3.py"
    )
    assert all(fact.source for fact in facts.values())


def test_layers_without_attention_are_counted_apart(tmp_path: Path) -> None:
    model = read(NEXT, tmp_path)[0]
    assert (model.other_layers, [one.count for one in model.layers]) == (36, [12])
    kinds = ["linear_attention", "full_attention", "conv", "sliding_attention"]
    mixed = read({**NEW, "num_hidden_layers": 4, "layer_types": kinds, "sliding_window": 8}, tmp_path)[0]
    assert (mixed.other_layers, [one.count for one in mixed.layers]) == (2, [1, 1])


def test_a_class_that_is_not_known_is_said(tmp_path: Path) -> None:
    assert read(GQA, tmp_path)[1] == ""
    assert read(NEW, tmp_path)[1].startswith("model_type newcomer is not in the table")
    assert "without model_type" in read({k: v for k, v in NEW.items() if k != "model_type"}, tmp_path)[1]


def test_a_folder_is_its_configuration(tmp_path: Path) -> None:
    assert told(read(GQA, tmp_path)) == told(read_config(tmp_path, "there"))
    assert read_config(tmp_path, "there")[0].name == "there"


BARE: Config = {"architectures": ["NewForCausalLM"]}
REFUSED: Mapping[str, tuple[object, str]] = {
    "no object": ([1, 2], "not an object"),
    "nothing": ({}, "nothing says that it is a decoder"),
    "no heads at all": (BARE, "lacks num_hidden_layers"),
    "no layers": ({**BARE, "num_attention_heads": 8, "hidden_size": 512}, "lacks num_hidden_layers"),
    "no width": ({**BARE, "num_attention_heads": 8, "num_hidden_layers": 2}, "lacks"),
    "no heads": ({**LLAMA, "num_attention_heads": 0}, "0: not a whole number above 0: num_attention_heads"),
    "heads as text": ({**LLAMA, "num_attention_heads": "32"}, "'32': not a whole number"),
    "heads of each layer": ({**LLAMA, "num_attention_heads": [8, 16]}, "not a whole number"),
    "half a head": ({**LLAMA, "num_attention_heads": 1.5}, "not a whole number"),
    "groups that do not divide": ({**LLAMA, "num_key_value_heads": 5}, "32 heads are not a multiple of 5"),
    "too many layers": ({**LLAMA, "num_hidden_layers": 10**9}, "more than 4096 layers"),
    "types for other layers": ({**GPT_OSS, "layer_types": ["full_attention"]}, "None, which no flag"),
    "types that are no list": ({**GPT_OSS, "layer_types": "full"}, "which no flag"),
    "a type that nobody knows": ({**NEW, "num_hidden_layers": 1, "layer_types": ["dreaming"]}, "'dreaming', which no flag"),
    "chunks by type": ({**NEW, "num_hidden_layers": 1, "layer_types": ["chunked_attention"]}, "'chunked_attention', which no flag"),
    "no attention at all": ({**NEW, "num_hidden_layers": 1, "layer_types": ["mamba"]}, "no layer has softmax"),
    "chunks": ({**NEW, "attention_chunk_size": 8192}, "attention within chunks"),
    "sparse": ({**NEW, "index_topk": 2048}, "sparse attention"),
    "encoder and decoder": ({**NEW, "is_encoder_decoder": True}, "an encoder and a decoder"),
    "both ways": ({**NEW, "use_bidirectional_attention": "all"}, "queries that see the keys behind them"),
    "half a latent row": ({**NEW, "kv_lora_rank": 512}, "lacks qk_nope_head_dim"),
    "a scale of 0": ({**GEMMA2, "query_pre_attn_scalar": 0}, "not a positive number"),
    "a cap as text": ({**GEMMA2, "attn_logit_softcapping": "50"}, "not a positive number"),
    "a factor as text": ({**DEEPSEEK, "rope_scaling": {"type": "yarn", "factor": "4", "mscale_all_dim": 1}}, "rope"),
    "a step of 0": ({**NEXT, "full_attention_interval": 0}, "modulo by zero"),
}  # fmt: skip


@pytest.mark.promise("Flags override a model's values, and what no flag can express is refused.")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_model_is_refused(name: str, tmp_path: Path) -> None:
    config, why = REFUSED[name]
    with pytest.raises(UsageError) as caught:
        read(config, tmp_path)
    assert caught.value.code == "E061"
    assert why in str(caught.value.why)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'{"num_attention_heads": NaN}', b"[" * 5000])
def test_a_damaged_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="no model"):
        read_config(path, "x")
    with pytest.raises(UsageError, match="no model"):
        read_config(tmp_path / "nowhere.json", "x")


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 70), st.floats(), st.text(max_size=4), st.lists(st.integers(), max_size=3)
)
MEMBERS = sorted(
    {key for config, _ in FAMILIES.values() for key in (*config, *config.get("text_config", {}))} - {"text_config"}
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(MEMBERS), JUNK), st.sampled_from(sorted(FAMILIES)))
@pytest.mark.slow
@pytest.mark.ci
def test_any_members_make_a_model_or_a_usage_error(damage: dict[str, Any], family: str) -> None:
    config, _ = FAMILIES[family]
    try:
        model = read_members({**config, **damage}, "m", "f")[0]
    except ValueError:
        return
    for one in model.layers:
        assert Problem.of(**{**model.flags(one, LayerPhase.PREFILL), "seqlen": 8}).heads >= 1
