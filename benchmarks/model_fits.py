"""The formulas that are tried for each fact of a class of transformers; the first that agrees with every recorded call is the fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

FULL = ("full_attention", "attention", "hybrid")
LOCAL = ("sliding_attention", "hybrid_sliding")
OTHERS = ("linear_attention", "conv", "mamba", "recurrent", "moe", "mlp")

ATTENDS = f"True if layer in {FULL + LOCAL} else False if layer in {OTHERS} else None"
"""Which layers have softmax attention; None for a type that the classes do not have."""

_LOCAL = f"layer in {LOCAL}"


def candidates(fact: str, names: Mapping[str, str]) -> Iterator[str]:
    """The formulas of a fact, those that read most members first.

    Args:
        names: usual name -> the name that the class has for it.
    """
    heads, width, kv, dim = (
        names[one] for one in ("num_attention_heads", "hidden_size", "num_key_value_heads", "head_dim")
    )
    yield from {
        "layers": (names["num_hidden_layers"], "decoder_layers", "num_layers"),
        "heads": (heads, "decoder_attention_heads"),
        "kv_heads": (f"{kv} or {heads}", kv, heads, "decoder_attention_heads", f"1 if multi_query else {heads}", "1"),
        "hdim": (
            f"{dim} or {width} // {heads}",
            dim,
            f"{width} // {heads}",
            "qk_nope_head_dim + qk_rope_head_dim",
            "d_model // decoder_attention_heads",
            "kv_channels",
        ),
        "hdim_v": ("hdim", "v_head_dim"),
        "scale": (
            "query_pre_attn_scalar ** -0.5 if query_pre_attn_scalar is not None else hdim ** -0.5",
            "attention_multiplier if attention_multiplier is not None else hdim ** -0.5",
            "hdim ** -0.5 * qk_scale_factor",
            "(hdim ** -0.5 if scale_attn_weights else 1.0) / (i + 1 if scale_attn_by_inverse_layer_idx else 1)",
            "hdim ** -0.5 if scale_attn_weights else 1.0",
            "hdim ** -0.5",
            "attention_scaling",
            "1.0",
            "1 / hdim",
        ),
        "softcap": ("attn_logit_softcapping", "attention_logit_softcapping", "None"),
        "sink_logits": ("False", "True", _LOCAL),
        "alibi": ("False", "True", "alibi"),
    }[fact]


def seen() -> Iterator[tuple[str, str]]:
    """Windows, and whether a query sees no key behind its own; first those that read most members."""
    ways = ("not use_bidirectional_attention", "use_bidirectional_attention != 'all'", "is_decoder", "True")
    for name in ("sliding_window", "sliding_window_size", "attention_window_size"):
        for causal in ways:
            yield f"{name} if {_LOCAL} else None", causal
            yield f"{name} + 1 if {_LOCAL} else None", causal
    for name in ("sliding_window", "sliding_window_size", "attention_window_size"):
        for causal in ways:
            yield name, causal
    for causal in ways:
        yield "None", causal
    for window in ("sliding_window", "sliding_window + 1", "sliding_window // 2 + 1"):
        yield f"{window} if {_LOCAL} else None", "False"
    yield "None", "False"
