"""Twelve small models of transformers with random weights, made from configurations: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

VOCABULARY = 97
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
_NO_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_WEIGHTS = {"initializer_range": 0.25}
"""Larger than usual, so that scores differ and a wrong mask shows in the logits."""
_DECODER = {**_SIZES, **_HEADS, **_NO_TOKENS, **_WEIGHTS}
WINDOW = 6


def llama() -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**_DECODER))


def mistral() -> Any:
    return hf.MistralForCausalLM(hf.MistralConfig(**_DECODER, sliding_window=WINDOW))


def gemma2() -> Any:
    """Softcap, layers with and without a window, and a scale of its own."""
    more = {"head_dim": 24, "sliding_window": WINDOW, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 40}
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**_DECODER, **more))


def gemma3() -> Any:
    more = {"head_dim": 24, "sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**_DECODER, **more))


def gpt_oss() -> Any:
    """Sinks. All experts serve each token: a router's choice would jump with a rounding."""
    more = {"head_dim": 16, "sliding_window": WINDOW, "num_local_experts": 2, "num_experts_per_tok": 2}
    model = hf.GptOssForCausalLM(hf.GptOssConfig(**_DECODER, **more))
    model.set_experts_implementation("eager")  # the other one has no float64
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks, std=2.0)
    return model


def qwen3() -> Any:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**_DECODER, head_dim=24))


def phi3() -> Any:
    return hf.Phi3ForCausalLM(hf.Phi3Config(**_DECODER))


def deepseek_v3() -> Any:
    """Multi-head latent attention: head dims 192 of Q and K, 128 of V."""
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 32, "kv_lora_rank": 32}
    dims = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**{**_DECODER, **heads}, **dims, first_k_dense_replace=2))


def opt() -> Any:
    sizes = {n: x for n, x in _SIZES.items() if n != "intermediate_size"}
    more = {"ffn_dim": 96, "num_attention_heads": 4, "word_embed_proj_dim": 64, "init_std": 0.25, "dropout": 0.0}
    return hf.OPTForCausalLM(hf.OPTConfig(**sizes, **more, **_NO_TOKENS))


def bert() -> Any:
    return hf.BertForMaskedLM(hf.BertConfig(**_SIZES, **_WEIGHTS, num_attention_heads=4, pad_token_id=0))


def t5() -> Any:
    """A learned bias of positions, no scale, and attention from a decoder to an encoder."""
    sizes = {"vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}
    more = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "dropout_rate": 0.0}
    return hf.T5ForConditionalGeneration(hf.T5Config(**sizes, **more, decoder_start_token_id=0, initializer_factor=1.0))


def vit() -> Any:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    return hf.ViTForImageClassification(
        hf.ViTConfig(**sizes, **_WEIGHTS, image_size=32, patch_size=8, num_labels=VOCABULARY)
    )


FAMILIES: dict[str, Callable[[], Any]] = {
    one.__name__: one for one in (llama, mistral, gemma2, gemma3, gpt_oss, qwen3, phi3, deepseek_v3, opt, bert, t5, vit)
}
WINDOWED = ("mistral", "gemma2", "gemma3", "gpt_oss")


def made(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """The family's model with the same weights each time."""
    torch.manual_seed(11)
    return FAMILIES[name]().train(mode=False).to(dtype)
