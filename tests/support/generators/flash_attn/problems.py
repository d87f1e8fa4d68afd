"""Random problems for FlashAttention-2. Some kernel supports most of them; the rest lie near the edges of support."""

from __future__ import annotations

from random import Random
from typing import Any

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem

KINDS = ("fwd", "fwd", "fwd", "split", "varlen", "varlen", "decode", "linear", "paged", "append", "bwd", "bwd", "bwd")
HEAD_DIMS = (32, 64, 64, 96, 128, 128, 128, 192, 256)
ODD_HEAD_DIMS = (8, 16, 24, 40, 48, 72, 80, 88, 104, 112, 136, 160, 200, 224, 248)
WRONG_HEAD_DIMS = (20, 33, 100, 255, 264, 512)
LENGTHS = (1, 2, 16, 31, 63, 64, 65, 100, 127, 128, 128, 129, 192, 255, 256, 256, 257, 300, 384, 512, 640, 1024, 2048)
LONG = (1000, 2048, 4096, 5000, 8192, 16384, 40000)


def random_problem(rng: Random, kind: str | None = None) -> Problem:
    """A random problem; contradictory draws are repeated."""
    while True:
        try:
            return Problem.of(**_flags(rng, kind or rng.choice(KINDS)))
        except ImpossibleProblem:
            continue


def _flags(rng: Random, kind: str) -> dict[str, Any]:
    flags: dict[str, Any] = _shape(rng, kind)
    flags["layout"] = rng.choice(["bhsd", "bshd", "bshd", "bhsd:bshd", "bshd:bhsd"])
    if rng.random() < 0.5:
        windows = ["window:32,0", "window:16,16", "window:-1,3", "window:100,-1", "window:0,0", "window:5000,7"]
        flags["mask"] = rng.choice(["causal", "causal", "causal", *windows])
    if rng.random() < 0.2:
        flags.update(rng.choice([{"alibi": True}, {"alibi_slopes": "filled:h"}, {"alibi_slopes": "filled:bh"}]))
    if rng.random() < 0.15:
        flags["softcap"] = rng.choice([15.0, 30.0])
    if rng.random() < (0.25 if kind in ("fwd", "varlen", "bwd") else 0.03):
        flags |= {"dropout": rng.choice([0.1, 0.17, 0.5]), "seed": rng.randrange(1 << 40), "offset": rng.randrange(99)}
    if rng.random() < 0.3:
        flags["scale"] = rng.choice([0.1, 0.3, 1.0])
    if rng.random() < 0.06:
        wrong = [{"bias": "elementwise"}, {"dtype": "fp32"}, {"dtype": "fp16:fp32"}, {"sink_logits": "filled"}]
        wrong += [{"mask": "causal-tl"}, {"mask": "generic:-3,9"}, {"hdim_v": 40}, {"qscale": "tensor"}, {"sink": 3}]
        flags |= rng.choice(wrong)
    flags["lse"] = rng.random() < 0.5
    return flags


def _shape(rng: Random, kind: str) -> dict[str, Any]:
    kv_heads = rng.choice([1, 2, 3, 8])
    odd = rng.random()
    dims = HEAD_DIMS if odd < 0.6 else ODD_HEAD_DIMS if odd < 0.96 else WRONG_HEAD_DIMS
    flags: dict[str, Any] = {
        "heads": kv_heads * rng.choice([1, 1, 2, 4]),
        "kv_heads": kv_heads,
        "hdim": rng.choice(dims),
        "dtype": rng.choice(["fp16", "bf16"]),
    }
    batch = rng.choice([1, 1, 2, 3, 7])
    if kind == "bwd":
        flags |= {"direction": rng.choice(["bwd"] * 9 + ["fwd+bwd"]), "deterministic": rng.random() < 0.3}
    share = {"varlen": 1.0, "bwd": 0.4, "paged": 0.3, "linear": 0.15}
    packed = rng.random() < share.get(kind, 0.0)
    if kind in ("linear", "paged", "append"):
        return flags | _cache(rng, kind, batch, packed)
    if packed:
        few = rng.random() < 0.3 and kind != "bwd"  # decoding: one query each
        flags["seqlens_q"] = ",".join(str(1 if few else rng.choice([0, *LENGTHS])) for _ in range(batch))
        flags["seqlens_k"] = ",".join(str(rng.choice([0, *LENGTHS])) for _ in range(batch))
        return flags
    lengths = LENGTHS if kind == "bwd" or rng.random() < 0.7 else LONG
    flags |= {"batch": batch, "seqlen": rng.choice(LENGTHS), "seqlen_k": rng.choice((0, *lengths, *lengths))}
    if kind == "decode":
        flags |= {"seqlen": rng.choice([1, 1, 2, 5]), "seqlen_k": rng.choice(LONG), "heads": 4 * kv_heads}
    if kind == "split":
        flags["splits"] = str(rng.choice([1, 2, 3, 8, 17, 64, 128, 129]))
    return flags


def _cache(rng: Random, kind: str, batch: int, packed: bool) -> dict[str, Any]:
    lengths = [rng.choice(LONG if rng.random() < 0.3 else LENGTHS) for _ in range(batch)]
    paged = kind == "paged" or (kind == "append" and rng.random() < 0.4)
    page = rng.choice([256, 256, 512, 1024, 16, 128])
    out: dict[str, Any] = {
        "cache_seqlens": ",".join(map(str, lengths)),
        "kv_cache": f"paged:{page}" if paged else "linear",
        "splits": rng.choice(["auto", "auto", "auto", "1", "3", "16"]),
    }
    if packed:
        out["seqlens_q"] = ",".join(str(rng.choice([1, 1, 5, 64, 200])) for _ in range(batch))
    else:
        out |= {"batch": batch, "seqlen": rng.choice([1, 1, 1, 3, 16, 64, 100])}
    if kind == "append":
        out["append"] = rng.choice([1, 3, 16, 64])
        if rng.random() < 0.6:
            out["rotary"] = rng.choice(["16", "32:interleaved", "32", "64", "8"])
            out["seqlen"] = rng.choice([out["append"], out["append"], 1, 5])
    if not paged and rng.random() < 0.3:
        out["cache_leftpad"] = ",".join(str(rng.choice([0, 1, 7, 130])) for _ in range(batch))
    if not paged and rng.random() < 0.3:
        out["cache_batch_idx"] = ",".join(map(str, rng.sample(range(9), batch)))
    return out
