"""What single classes of transformers do that a reader of configurations gets wrong by guessing: the value, from their source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.discovery.model_config import FILE, type_rows
from fmha_cli.domain.arch import arch_root
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.formula import names_of, value_of
from fmha_cli.domain.layer import LayerPhase
from tests.support.generators.model_texts import read, told

Config = Mapping[str, Any]

CLASSES: Mapping[str, tuple[Config, str]] = {
    "gemma3n: no scale, every fifth layer is global": (
        {"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text"}},
        "h8/2 d256 window:511,0 x28, causal x7 scale1.0",
    ),
    "gemma4_unified: no scale, wider global heads": (
        {"model_type": "gemma4_unified", "text_config": {}},
        "h8/4 d256 window:1023,0 x25, h8/4 d512 causal x5 scale1.0",
    ),
    "granite_swa: sinks": (
        {"model_type": "granite_swa", "hidden_size": 2560, "attention_multiplier": 0.0625},
        "h20/4 d128 window:127,0 x18, causal x6 scale0.0625 sinks",
    ),
    "granitemoe_swa: sinks": (
        {"model_type": "granitemoe_swa", "hidden_size": 4096, "num_key_value_heads": 8, "attention_multiplier": 0.0625},
        "h32/8 d128 window:127,0 x24, causal x8 scale0.0625 sinks",
    ),
    "flint: sinks, and a pattern of its own": ({"model_type": "flint"}, "h32/4 d128 window:512,0 x35, causal x14 sinks"),
    "mimo_v2_flash: V is narrower, local layers have more key/value heads, and sinks": (
        {"model_type": "mimo_v2_flash"},
        "h64/8 d192/128 window:128,0 x39, h64/4 d192/128 causal x9 sinks",
    ),
    "recurrent_gemma: every third layer attends": ({"model_type": "recurrent_gemma"}, "h10/10 d256 window:2047,0 x8"),
    "jamba: 4 of 32 layers attend": ({"model_type": "jamba"}, "h32/8 d128 causal x4"),
    "longcat_flash: two attentions a layer": (
        {"model_type": "longcat_flash", "num_layers": 28},
        "h64/64 d192/128 causal x56",
    ),
    "mllama: cross layers are no rows": (
        {"model_type": "mllama", "text_config": {"model_type": "mllama_text_model"}},
        "h32/8 d128 causal x32",
    ),
    "bloom: ALiBi": ({"model_type": "bloom", "hidden_size": 4096, "n_head": 32, "n_layer": 30}, "h32/32 d128 causal x30 alibi"),
    "mpt: ALiBi": ({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32}, "h32/32 d128 causal x32 alibi"),
    "gpt_neo: no scale, local layers of 256": ({"model_type": "gpt_neo"}, "h16/16 d128 window:255,0 x12, causal x12 scale1.0"),
    "jetmoe: kv_channels": ({"model_type": "jetmoe", "kv_channels": 96}, "h32/32 d96 causal x12"),
    "lfm2: full_attn_idxs": (
        {"model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 16, "full_attn_idxs": [2, 5, 8, 10, 12, 14]},
        "h32/8 d64 causal x6",
    ),
    "internlm3: a class of another type, two key/value heads": ({"model_type": "internlm3"}, "h32/2 d128 causal x48"),
    "dbrx: attn_config": (
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "attn_config": {"kv_n_heads": 8}},
        "h48/8 d128 causal x40",
    ),
    "zamba2: twice the width, 9 of 54 layers attend": (
        {"model_type": "zamba2", "hidden_size": 2560, "num_attention_heads": 32, "num_hidden_layers": 54},
        f"h32/32 d160 causal x9 scale{80**-0.5}",
    ),
    "hrm_text: stacks that run 2 * (3 + 1) times": (
        {"model_type": "hrm_text", "num_hidden_layers": 16, "num_attention_heads": 12, "head_dim": 128},
        "h12/12 d128 causal x128",
    ),
    "glm_ocr: the text of a model for images": (
        {"model_type": "glm_ocr", "text_config": {"model_type": "glm_ocr_text", "head_dim": 128}},
        "h16/8 d128 causal x16",
    ),
    "diffllama: two calls a layer": ({"model_type": "diffllama"}, "h32/32 d64 causal x32"),
    "plbart: the decoder's heads, not the encoder's": (
        {"model_type": "plbart", "is_encoder_decoder": False, "d_model": 1024, "decoder_attention_heads": 8, "encoder_attention_heads": 16},
        "h8/8 d128 causal x6",
    ),
    "stablelm: its class reads no head_dim": ({"model_type": "stablelm", "head_dim": 128}, "h32/32 d80 causal x32"),
    "qwen2_moe without use_sliding_window": (
        {"model_type": "qwen2_moe", "sliding_window": 4096, "max_window_layers": 2},
        "h16/16 d128 causal x24",
    ),
}  # fmt: skip
"""Configurations, most of them all by default, and the problems that they make in prefill."""


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_with_something_of_its_own(name: str, tmp_path: Path) -> None:
    config, expected = CLASSES[name]
    assert told(read(config, tmp_path)) == expected


def test_what_is_beside_the_layers_of_the_rows(tmp_path: Path) -> None:
    def of(name: str) -> Any:
        return read(CLASSES[next(one for one in CLASSES if one.startswith(name))][0], tmp_path)[0]

    assert [of(name).other_layers for name in ("recurrent_gemma", "jamba", "lfm2")] == [18, 28, 10]
    assert of("mllama").cross_layers == 8
    assert [of(name).calls for name in ("longcat_flash", "diffllama", "jamba")] == [2, 2, 1]


OUTER = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
    "audio_config": {"head_dim": 1280, "num_attention_heads": 20},
    "head_dim": 1280,
    "num_attention_heads": 20,
    "attn_logit_softcapping": 30.0,
}


def test_members_of_an_outer_configuration_never_reach_the_language_model(tmp_path: Path) -> None:
    assert told(read(OUTER, tmp_path)).startswith("h8/4 d256 window:511,0 x5, h8/4 d512 causal x1 scale1.0")
    llava = {"model_type": "llava", "text_config": {"model_type": "llama"}, "head_dim": 1280, "num_key_value_heads": 1}
    assert told(read(llava, tmp_path)) == "h32/32 d128 causal x32"


def test_numbers_that_json_lacks_are_no_error_where_nobody_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{"model_type": "llama", "time_step_limit": [0.0, Infinity], "other": NaN, "large": 1e999}', "utf-8"
    )
    from fmha_cli.discovery.model_config import read_config

    assert told(read_config(path, "x")) == "h32/32 d128 causal x32"
    path.write_text('{"model_type": "granite", "attention_multiplier": Infinity}', "utf-8")
    with pytest.raises(UsageError) as caught:
        read_config(path, "x")
    assert "not a positive number" in str(caught.value.why)


NO_ROWS: Mapping[str, tuple[Config, str]] = {
    **{name: ({"model_type": name}, "no layer has softmax attention") for name in ("mamba", "mamba2", "xlstm", "falcon_mamba", "rwkv")},
    "an indexer": ({"model_type": "deepseek_v32"}, "sparse attention"),
    "chunks": ({"model_type": "llama4", "text_config": {}}, "attention within chunks"),
    "an encoder and a decoder": ({"model_type": "bart"}, "an encoder and a decoder"),
    "slopes that are not the standard ones": ({"model_type": "falcon", "alibi": True}, "divided by the root of the head dim"),
    "scores with learned numbers": ({"model_type": "doge"}, "a bias that is added to the scores"),
    "an unknown type": ({"model_type": "newcomer", "num_attention_heads": 8}, "nothing says that it is a decoder"),
    "an unknown encoder": ({"model_type": "newcomer", "architectures": ["NewForMaskedLM"]}, "nothing says that it is a decoder"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ROWS)
def test_what_no_row_can_stand_for(name: str, tmp_path: Path) -> None:
    config, why = NO_ROWS[name]
    with pytest.raises(UsageError) as caught:
        read(config, tmp_path)
    assert caught.value.code == "E061"
    assert why in str(caught.value.why)


ENCODERS = ("albert", "bert", "roberta", "xlm-roberta", "distilbert", "electra", "camembert")
TOWERS = ("clip_vision_model", "siglip_vision_model", "vit")


@pytest.mark.parametrize("kind", ENCODERS + TOWERS)
def test_encoders_and_towers_have_no_mask(kind: str, tmp_path: Path) -> None:
    model = read({"model_type": kind}, tmp_path)[0]
    assert not model.causal
    assert {model.flags(one, LayerPhase.PREFILL)["mask"] for one in model.layers} == {"none"}
    if kind in ENCODERS and kind in ("bert", "roberta"):
        assert read({"model_type": kind, "is_decoder": True}, tmp_path)[0].causal


SPELLED: Mapping[str, Config] = {
    "attention_heads": {"attention_heads": 8, "d_model": 512, "num_layers": 4},
    "n_heads": {"n_heads": 8, "emb_dim": 512, "n_layers": 4},
    "n_head": {"n_head": 8, "n_embd": 512, "n_layer": 4},
    "decoder_attention_heads": {"decoder_attention_heads": 8, "d_model": 512, "decoder_layers": 4},
}


@pytest.mark.parametrize("name", SPELLED)
def test_an_unknown_decoder_is_assumed_and_says_so(name: str, tmp_path: Path) -> None:
    found = read({"model_type": "newcomer", "architectures": ["NewForCausalLM"], **SPELLED[name]}, tmp_path)
    assert told(found) == "h8/8 d64 causal x4"
    assert found[0].assumed.startswith("model_type newcomer is not in the table of transformers")
    assert "assumed" in found[1]
    assert found[0].title.endswith("(assumed)")
    assert read({"model_type": "llama"}, tmp_path)[0].assumed == ""


def test_every_row_of_the_table_can_be_read() -> None:
    table = json.loads(arch_root().joinpath(FILE).read_text("utf-8"))
    rows = type_rows()
    assert len(rows) > 800
    for kind, row in table["types"].items():
        read_ = rows[kind]
        assert read_.source, kind
        assert bool(read_.facts) + bool(read_.why) + bool(read_.text) == 1, kind
        assert "as" not in row or "facts" in table["types"][row["as"]], kind
        for formula in (*read_.facts.values(), *read_.refused):
            names_of(formula)
        if read_.text:
            assert read_.text_type in rows or not read_.text_type, kind


@pytest.mark.parametrize(
    ("formula", "members", "value"),
    [
        ("a or b // c", {"a": None, "b": 12, "c": 5}, 2),
        ("a or b // c", {"a": 7, "b": 12, "c": 5}, 7),
        ("a ** -0.5", {"a": 16}, 0.25),
        ("x[i] if x else 'y'", {"x": ["p", "q"], "i": 1}, "q"),
        ("x['k']", {"x": None}, None),
        ("p[i] == '*'", {"p": "M*", "i": 1}, True),
        ("i not in (1, 2)", {"i": 3}, True),
        ("1 < a <= 3", {"a": 3}, True),
        ("-min(a, len(x))", {"a": 5, "x": (1, 2)}, -2),
    ],
)
def test_a_formula_has_the_value_that_python_gives(formula: str, members: dict[str, Any], value: Any) -> None:
    assert value_of(formula, members.get) == value


@pytest.mark.parametrize(
    "formula", ["a.b", "a(b)", "[x for x in a]", "lambda: 1", "a / 0", "a * b", "a ** 2", "open('x')", "a b", "a['x']"]
)
def test_what_is_no_formula_has_no_value(formula: str) -> None:
    with pytest.raises(ValueError):
        value_of(formula, {"a": 0, "b": "text"}.get)
