"""Facts of classes of transformers that no candidate of ``model_fits`` explains, read from their source; and why others have no row.

Each is judged by the same recorded calls as the facts that are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOCAL = "layer in ('sliding_attention', 'hybrid_sliding')"
_YARN = {
    "rope": "rope_scaling or rope_parameters",
    "scale": "hdim ** -0.5 * (1 if not rope['mscale_all_dim'] or not rope['factor'] or (rope['rope_type'] or rope['type'] or 'default') == "
    "'default' or rope['factor'] <= 1 else (0.1 * rope['mscale_all_dim'] * log(rope['factor']) + 1) ** 2)",
}
_MLA = {
    "heads": "num_attention_heads",
    "kv_heads": "num_attention_heads",
    "hdim": "qk_nope_head_dim + qk_rope_head_dim",
    "hdim_v": "v_head_dim",
    "latent": "kv_lora_rank",
    "latent_rope": "qk_rope_head_dim",
}
_GEMMA4 = {
    "layer": "'full_attention' if i == num_hidden_layers - 1 else layer_types[i] if layer_types else ('sliding_attention' if (i + 1) % 6 else 'full_attention')",
    "hdim": "global_head_dim if layer == 'full_attention' else head_dim",
    "kv_heads": "num_global_key_value_heads if layer == 'full_attention' and attention_k_eq_v and num_global_key_value_heads is not None else num_key_value_heads",
    "window": f"sliding_window if {LOCAL} else None",
    "causal": "use_bidirectional_attention != 'all'",
}
_GEMMA4_ROW: Mapping[str, Any] = {
    "facts": _GEMMA4,
    "defaults": {"global_head_dim": 512},
    "refused": {"per_layer_config": "members that differ from layer to layer"},
}
_SMOL = (
    "'sliding_attention' if use_sliding_window and sliding_window is not None and not (no_rope_layers[i] if no_rope_layers is not None "
    "else (i + 1) % no_rope_layer_interval) else 'full_attention'"
)

_XLM = {
    "layers": "n_layers",
    "heads": "n_heads",
    "kv_heads": "n_heads",
    "hdim": "emb_dim // n_heads",
    "scale": "1.0",
    "window": "None",
    "causal": "causal",
}
_BERT = {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_attention_heads",
    "hdim": "hidden_size // num_attention_heads",
    "causal": "is_decoder",
}
_BART = {
    "layers": "decoder_layers",
    "heads": "decoder_attention_heads",
    "kv_heads": "decoder_attention_heads",
    "hdim": "d_model // decoder_attention_heads",
    "scale": "1.0",
}

BY_HAND: Mapping[str, Mapping[str, Any]] = {
    **{
        kind: {"facts": {**_MLA, **_YARN}}
        for kind in (
            *(
                "axk1",
                "bailing_hybrid",
                "deepseek_v2",
                "deepseek_v3",
                "glm4_moe_lite",
                "minicpm3",
                "youtu",
                "sarvam_mla",
            ),
        )
    },
    "mistral4": {
        "facts": {**_MLA, **_YARN},
        "defaults": {"rope_parameters": {"type": "yarn", "factor": 128.0, "mscale_all_dim": 1.0}},
    },
    "kimi_linear": {
        "facts": {
            **_MLA,
            "layer": "layer_types[i] if layer_types else ('full_attention' if i + 1 in linear_attn_config['full_attn_layers'] else 'linear_attention') "
            "if linear_attn_config['full_attn_layers'] and linear_attn_config['kda_layers'] else ('full_attention' if i and i % 4 == 0 else 'linear_attention')",
        }
    },
    "longcat_flash": {"facts": {**_MLA, **_YARN, "layers": "num_layers", "calls": "2"}},
    "gemma4_text": _GEMMA4_ROW,
    "gemma4_unified_text": _GEMMA4_ROW,
    "diffusion_gemma_text": _GEMMA4_ROW,
    "mimo_v2_flash": {
        "facts": {
            "kv_heads": f"(swa_num_key_value_heads or 2 * num_key_value_heads) if {LOCAL} else num_key_value_heads",
            "window": f"(sliding_window if sliding_window_size is None else sliding_window_size + 1) if {LOCAL} else None",
        }
    },
    "jamba": {"facts": {"attends": "i % attn_layer_period == attn_layer_offset"}},
    "bamba": {"facts": {"attends": "i in (attn_layer_indices or ())"}},
    "falcon_h1": {"facts": {"layers": "num_hidden_layers", "calls": "1"}},
    "lfm2": {
        "facts": {
            "layer": "layer_types[i] if layer_types else ('full_attention' if full_attn_idxs is None or i in full_attn_idxs else 'conv')"
        }
    },
    "mllama_text_model": {
        "facts": {
            "attends": "i not in (cross_attention_layers or (3, 8, 13, 18, 23, 28, 33, 38))",
            "crosses": "i in (cross_attention_layers or (3, 8, 13, 18, 23, 28, 33, 38))",
        }
    },
    "recurrent_gemma": {
        "facts": {"attends": "block_types[i % len(block_types)] == 'attention'", "window": "attention_window_size"},
        "defaults": {"block_types": ["recurrent", "recurrent", "attention"]},
    },
    "zamba": {
        "facts": {
            "layer": "layers_block_type[i] if layers_block_type else ('hybrid' if i == 2 or (i > 2 and (i - 3) % attn_layer_period == attn_layer_offset) else 'linear_attention')",
            "hdim": "attention_head_dim or 2 * hidden_size // num_attention_heads",
            "scale": "(hdim / 2) ** -0.5",
        }
    },
    "zamba2": {
        "facts": {
            "layer": "layers_block_type[i] if layers_block_type else ('hybrid' if i in (6, 12, 18, 24, 30, 36, 42, 47, 51) else 'linear_attention')",
            "hdim": "attention_head_dim if attention_head_dim is not None else 2 * hidden_size // num_attention_heads",
            "scale": "(hdim / 2) ** -0.5",
        }
    },
    "nemotron_h": {
        "facts": {
            "layers": "len(hybrid_override_pattern if hybrid_override_pattern and not layers_block_type else layers_block_type or ('mamba', 'moe', 'attention', 'mlp'))",
            "layer": "layers_block_type[i] if layers_block_type else ('attention' if hybrid_override_pattern[i] == '*' else 'mamba') "
            "if hybrid_override_pattern else ('mamba', 'moe', 'attention', 'mlp')[i]",
        }
    },
    "olmo_hybrid": {
        "facts": {
            "layer": "layer_types[i] if layer_types else ('full_attention' if i % 4 == 3 or (num_hidden_layers < 4 and i == num_hidden_layers - 1) else 'linear_attention')"
        }
    },
    "lara_mini": {
        "facts": {
            "layer": "layer_types[i] if layer_types else ('linear_attention', 'sliding_attention', 'linear_attention', 'full_attention', 'sliding_attention')[i % 5]"
        }
    },
    "beam": {
        "facts": {
            "layer": "layer_types[i] if layer_types else ('sliding_attention' if (i + 1) % 6 and i != num_hidden_layers - 1 else 'full_attention')"
        }
    },
    "inkling_text": {
        "facts": {
            "layer": "layer_types[i] if layer_types else ('hybrid_sliding' if (i in local_layer_ids if local_layer_ids is not None else (i + 1) % 6) else 'hybrid')"
        }
    },
    "smollm3": {"facts": {"layer": f"layer_types[i] if layer_types else ({_SMOL})"}},
    "modernbert-decoder": {
        "facts": {
            "layer": "layer_types[i] if layer_types else ('sliding_attention' if i % global_attn_every_n_layers else 'full_attention')",
            "window": f"(sliding_window or local_attention // 2) if {LOCAL} else None",
        },
        "defaults": {"global_attn_every_n_layers": 3},
    },
    "modernbert": {
        "facts": {
            "layer": "layer_types[i] if layer_types else ('sliding_attention' if i % global_attn_every_n_layers else 'full_attention')",
            "window": f"(sliding_window or local_attention // 2) + 1 if {LOCAL} else None",
            "causal": "False",
        },
        "defaults": {"global_attn_every_n_layers": 3},
    },
    "cohere2_moe": {
        "facts": {
            "dense": "first_k_dense_replace or 0",
            "layer": "layer_types[i] if layer_types else ('sliding_attention' if ((i + 1) % prefix_dense_sliding_window_pattern if i < dense else "
            "(i + 1 - dense) % sliding_window_pattern) else 'full_attention')",
        }
    },
    "albert": {"facts": {"calls": "inner_group_num"}},
    "mobilebert": {
        "facts": {
            "heads": "num_attention_heads",
            "kv_heads": "num_attention_heads",
            "hdim": "(intra_bottleneck_size if use_bottleneck else hidden_size) // num_attention_heads",
        }
    },
    "laguna": {
        "facts": {"heads": "num_attention_heads_per_layer[i] if num_attention_heads_per_layer else num_attention_heads"}
    },
    "hrm_text": {
        "facts": {
            "num_layers_per_stack": "num_layers_per_stack if num_layers_per_stack is not None else num_hidden_layers",
            "num_hidden_layers": "num_hidden_layers",
            "layers": "num_layers_per_stack * H_cycles * (L_cycles + 1)",
        }
    },
    "embedding_gemma2_text": {
        "facts": {
            "layer": "'full_attention' if i == num_hidden_layers - 1 else layer_types[i] if layer_types else ('sliding_attention' if (i + 1) % sliding_window_pattern else 'full_attention')",
            "hdim": "global_head_dim if layer == 'full_attention' else head_dim",
            "kv_heads": "num_global_key_value_heads if layer == 'full_attention' else num_key_value_heads",
        },
        "defaults": {"global_head_dim": 512, "num_global_key_value_heads": 1, "sliding_window_pattern": 6},
        "refused": {"per_layer_config": "members that differ from layer to layer"},
    },
    "step3p5": {
        "facts": {
            "heads": "num_sliding_attention_heads if layer == 'sliding_attention' and num_sliding_attention_heads is not None else num_attention_heads"
        },
        "refused": {
            "sparse_attention_config": "sparse attention",
            "attention_other_setting": "heads that differ from layer to layer in an earlier form",
            "per_layer_config": "members that differ from layer to layer",
        },
    },
    **{
        kind: {
            "refused": {
                "use_relative_position_bias or use_shared_relative_position_bias": "a bias of relative positions that is added to the scores"
            }
        }
        for kind in ("beit", "data2vec-vision")
    },
    "ultrabert": {"refused": {"attention_windows": "windows of each layer's own"}},
    "dbrx": {
        "facts": {
            "layers": "n_layers",
            "heads": "n_heads",
            "kv_heads": "attn_config['kv_n_heads'] or 1",
            "hdim": "d_model // n_heads",
        }
    },
    "granitemoehybrid": {"facts": {"layer": "layer_types[i] if layer_types else 'linear_attention'"}},
    "bloom": {
        "facts": {
            "layers": "n_layer",
            "heads": "n_head",
            "kv_heads": "n_head",
            "hdim": "hidden_size // n_head",
            "alibi": "True",
        },
    },
    "mpt": {
        "facts": {
            "layers": "n_layers",
            "heads": "n_heads",
            "kv_heads": "n_heads",
            "hdim": "d_model // n_heads",
            "alibi": "True",
            "scale": "attn_config['softmax_scale'] if attn_config['softmax_scale'] is not None else hdim ** -0.5",
        },
    },
    "falcon": {
        "facts": {
            "layers": "num_hidden_layers",
            "heads": "num_attention_heads",
            "kv_heads": "num_kv_heads if new_decoder_architecture or not multi_query else 1",
            "hdim": "hidden_size // num_attention_heads",
        },
        "refused": {"alibi": "ALiBi slopes divided by the root of the head dim"},
    },
    "gpt_neo": {
        "facts": {
            "layers": "num_layers",
            "heads": "num_heads",
            "kv_heads": "num_heads",
            "hdim": "hidden_size // num_heads",
            "hdim_v": "hdim",
            "layer": "attention_types[0][0][i % len(attention_types[0][0])]",
            "attends": "True if layer in ('global', 'local') else None",
            "window": "window_size if layer == 'local' else None",
            "scale": "1.0",
        },
        "defaults": {"attention_types": [[["global", "local"], 12]]},
        "refused": {"len(attention_types) != 1": "several patterns of attention types"},
    },
    "gpt_neox_japanese": {
        "facts": {**_BERT, "causal": "True"},
    },
    "openai-gpt": {
        "facts": {"layers": "n_layer", "heads": "n_head", "kv_heads": "n_head", "hdim": "n_embd // n_head"},
    },
    "xglm": {
        "facts": {
            "layers": "num_layers",
            "heads": "attention_heads",
            "kv_heads": "attention_heads",
            "hdim": "d_model // attention_heads",
            "scale": "1.0",
        },
    },
    "trocr": {
        "facts": _BART,
    },
    "clvp_decoder": {
        "facts": {**_BERT, "causal": "True", "scale": "1.0"},
    },
    "rembert": {"facts": _BERT},
    "roformer": {"facts": _BERT},
    "megatron-bert": {
        "facts": _BERT,
    },
    "big_bird": {
        "facts": _BERT,
        "refused": {"attention_type != 'original_full'": "block-sparse attention"},
    },
    "xlm": {
        "facts": _XLM,
    },
    "flaubert": {
        "facts": _XLM,
    },
}
"""model_type -> facts, defaults and conditions of refusal."""

WHY: Mapping[str, str] = {
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "xlstm", "rwkv", "fnet"), "no layer has softmax attention"),
    **dict.fromkeys(
        (
            "deepseek_v32",
            "glm_moe_dsa",
            "axk2",
            "hy_v4",
            "hy_v4_vl_text",
            "mistral_large4_text",
            "glm5_next_text",
            "minimax_m3_vl_text",
            "qwen4_exp_text",
            "dots3_note_text",
        ),
        "sparse attention, to the keys that an indexer picks, which no flag expresses",
    ),
    "deepseek_v4": "attention to compressed keys, which no flag expresses",
    "llama4_text": "attention within chunks, which no flag expresses",
    "dory": "layers that run several times, a number of times that the input decides",
    "reformer": "attention within buckets of hashes and within chunks, which no flag expresses",
    "xlnet": "attention with relative positions and two streams, which no flag expresses",
    "prophetnet": "an encoder and a decoder, whose decoder predicts several streams",
    "cpmant": "a learned bias of relative positions, which no flag expresses",
    **dict.fromkeys(
        ("t5", "mt5", "umt5", "t5gemma", "byt5", "longt5", "switch_transformers", "speech_to_text", "encoder-decoder"),
        "an encoder and a decoder, of which no row is both",
    ),
    "diffusion_gemma_text": "an encoder of the prompt and a decoder that denoises blocks, of which no row is both",
    "unlimited_ocr_text": "windows beside the keys of a reference, which no flag expresses",
    **dict.fromkeys(
        ("musicgen", "musicgen_melody", "musicgen_decoder", "musicgen_melody_decoder"),
        "a decoder whose layers also attend to an encoded text",
    ),
    **dict.fromkeys(("deberta", "deberta-v2"), "scores of relative positions, which no flag expresses"),
    "canine": "attention within blocks of characters, which no flag expresses",
    "nystromformer": "attention to landmarks, which no flag expresses",
    **dict.fromkeys(
        ("qwen2_5_omni_audio_encoder", "qwen3_omni_moe_audio_encoder", "qwen3_asr_encoder"),
        "attention within chunks of the sound, which no flag expresses",
    ),
    "moonshine_streaming_encoder": "windows of each layer's own, which no flag expresses",
    "rf_detr_dinov2": "windows that are laid into the batch, in the layers that a list names, which no flag expresses",
    "longformer": "attention to a window and to chosen keys, which no flag expresses",
}
"""model_type -> why no row of a problem can stand for its attention."""
