"""The problems with which backends are asked what they have: a line of flags for each feature that people look for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """Whom the problems are put to.

    Attributes:
        base: flags in addition to the feature's, without which the backend serves nothing.
    """

    backend: str
    arch: str
    base: str = ""

    @property
    def title(self) -> str:
        return f"{self.backend} {self.arch}"


ASKED = (
    Column("ck_tile", "gfx942"),
    Column("triton", "gfx942"),
    Column("flash_attn", "sm_80"),
    Column("flash_attn_3", "sm_90a"),
    Column("mem_efficient", "sm_80"),
    Column("cudnn_oss", "sm_100a", "--dtype bf16 --causal"),
    Column("triton", "sm_90a"),
    Column("cpu", "x86_64_v4"),
    Column("torch", "generic"),
    Column("onnxruntime", "generic"),
    Column("openvino", "generic"),
    Column("jax", "generic"),
    Column("ggml", "generic"),
    Column("mlx", "generic"),
)
"""Every backend, on an architecture for which it has most of its kernels."""

FEATURES: Mapping[str, Mapping[str, str]] = {
    "Element types": {
        "fp16": "--dtype fp16",
        "bf16": "--dtype bf16",
        "fp32": "--dtype fp32",
        "fp8 e4m3": "--dtype fp8_e4m3",
        "fp8 e4m3, a scale for each tensor": "--dtype fp8_e4m3 --qscale tensor",
        "fp8 e4m3, a scale for each block": "--dtype fp8_e4m3 --qscale block",
        "fp8 e5m2": "--dtype fp8_e5m2",
        "fp16, output in fp32": "--dtype fp16:fp32",
        "mxfp8": "--dtype mxfp8",
        "mxfp4": "--dtype mxfp4",
    },
    "Head dims": {
        "32": "-d 32",
        "64": "-d 64",
        "72": "-d 72",
        "128": "-d 128",
        "192, V 128": "-d 192 --hdim-v 128",
        "256": "-d 256",
        "512": "-d 512",
        "1024": "-d 1024",
        "576, V a view of K (latent attention)": "-H 16 --kv-heads 1 -d 576 --mla-rope 64",
    },
    "Masks": {
        "causal": "--causal",
        "causal, top-left": "--mask causal-tl --seqlen 512 --seqlen-k 1k",
        "sliding window": "--mask window:128,0",
        "window on both sides": "--mask window:128,128",
        "sliding window with leading keys": "--mask window:128,0 --sink 4",
        "rectangle of keys": "--mask generic:1,16",
    },
    "Scores": {
        "bias": "--bias elementwise",
        "bias for each sequence and head": "--bias elementwise:bhss",
        "ALiBi": "--alibi",
        "softcap": "--softcap 30",
        "learned sink logits": "--sink-logits filled",
        "dropout": "--dropout 0.1",
        "softmax scale of your own": "--scale 0.5",
        "log-sum-exp as an output": "--lse",
    },
    "Shapes": {
        "grouped heads": "-H 8 --kv-heads 2",
        "one key/value head": "-H 8 --kv-heads 1",
        "one query": "--seqlen 1 --seqlen-k 4k",
        "packed sequences of different lengths": "--seqlens-q 512,128 --seqlens-k 512,256",
        "bshd layout": "--layout bshd",
    },
    "KV cache": {
        "linear": "--kv-cache linear --seqlen 1 --seqlen-k 4k",
        "paged, 16 keys a page": "--kv-cache paged:16 --seqlen 1 --seqlen-k 4k",
        "paged, 128 keys a page": "--kv-cache paged:128 --seqlen 1 --seqlen-k 4k",
        "paged, 256 keys a page": "--kv-cache paged:256 --seqlen 1 --seqlen-k 4k",
        "append new keys": "--kv-cache linear --seqlen 1 --seqlen-k 4k --append 1",
        "append with rotary embedding": "--kv-cache linear --seqlen 1 --seqlen-k 4k --append 1 --rotary 64",
        "left padding": "--kv-cache linear --seqlen 1 --seqlen-k 4k --cache-leftpad 8",
        "rows by an index": "--kv-cache linear --seqlen 1 --seqlen-k 4k --cache-batch-idx 1",
        "int8 cache": "--kv-cache linear --seqlen 1 --seqlen-k 4k --kv-dtype int8",
        "fp8 cache": "--kv-cache linear --seqlen 1 --seqlen-k 4k --kv-dtype fp8_e4m3",
        "paged, packed queries": "--seqlens-q 1,3 --kv-cache paged:128",
        "keys in several parts": "--seqlen 1 --seqlen-k 4k --splits 4",
    },
    "Backward pass": {
        "backward": "--direction bwd",
        "backward, causal": "--direction bwd --causal",
        "backward, grouped heads": "--direction bwd -H 8 --kv-heads 2",
        "backward, deterministic": "--direction bwd --deterministic",
        "backward with dropout": "--direction bwd --dropout 0.1",
        "backward with bias": "--direction bwd --bias elementwise",
        "gradient of the bias": "--direction bwd --bias elementwise --dbias",
        "backward, head dim 256": "--direction bwd -d 256",
        "backward, packed sequences": "--direction bwd --seqlens-q 512,128 --seqlens-k 512,256",
        "backward, softcap": "--direction bwd --softcap 30",
        "backward, learned sink logits": "--direction bwd --sink-logits filled",
        "backward, fp32": "--direction bwd --dtype fp32",
        "backward, fp8": "--direction bwd --dtype fp8_e4m3",
        "both passes at once": "--direction fwd+bwd",
    },
}
"""Group -> feature -> flags in addition to the defaults."""
