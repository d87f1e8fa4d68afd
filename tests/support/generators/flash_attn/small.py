"""Small problems for the model of FlashAttention's kernels.

They are a hand-written list with every family and feature, and random ones.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem

BWD = "--direction bwd"
DIRECTED = (
    "-b 2 -H 4 --kv-heads 2 -s 130 --seqlen-k 200 -d 64 --causal --lse --layout bshd",
    "-b 2 -H 2 -s 256 --seqlen-k 256 -d 64 --lse --dtype bf16",
    "-b 1 -H 2 -s 128 --seqlen-k 384 -d 128 --causal --lse",
    "-b 1 -H 2 -s 70 --seqlen-k 33 -d 192 --causal --lse --layout bshd:bhsd",
    "-b 1 -H 1 -s 65 --seqlen-k 200 -d 256 --softcap 9 --lse",
    "-b 2 -H 3 -s 140 -d 72 --mask window:30,5 --lse --alibi",
    "-b 2 -H 2 -s 150 -d 88 --mask window:9,-1 --scale 0.3 --lse --dtype bf16",
    "-b 2 -H 2 -s 70 --seqlen-k 140 -d 96 --causal --lse --alibi-slopes filled:bh --dropout 0.2 --seed 5 --offset 77",
    "-b 1 -H 3 -s 80 -d 128 --mask causal-tl --dropout 0.4 --seed 1099511627776 --lse",
    "-b 1 -H 2 -s 20 --seqlen-k 3000 -d 64 --causal --alibi-slopes filled:h --lse",
    "-b 2 -H 2 -s 40 --seqlen-k 0 -d 64 --lse",
    "-b 2 -H 8 --kv-heads 2 -s 1 --seqlen-k 700 -d 64 --lse --causal",
    "-b 2 -H 4 -s 5 --seqlen-k 600 -d 128 --splits 4 --lse --causal --alibi",
    "-b 1 -H 6 --kv-heads 3 -s 3 --seqlen-k 900 -d 40 --splits 9 --lse --softcap 7 --layout bshd",
    "-b 2 -H 4 -s 200 --seqlen-k 90 -d 64 --splits 2 --lse --causal",
    "-b 2 -H 2 -s 64 --seqlen-k 512 -d 64 --splits 2 --lse",
    "--seqlens-q 100,0,33 --seqlens-k 70,5,0 -H 4 --kv-heads 2 -d 32 --lse --dropout 0.5 --causal",
    "--seqlens-q 140,7 --seqlens-k 139,30 -H 4 --kv-heads 1 -d 64 --lse --layout bshd --mask window:40,3",
    "--seqlens-q 3,150,1 --seqlens-k 0,30,7 -H 2 -d 128 --lse --causal --alibi",
    "--seqlens-q 1,1,1 --seqlens-k 700,5,0 -H 8 --kv-heads 2 -d 64 --lse",
    "--seqlens-q 1,1,1 --seqlens-k 40,5,0 -H 6 --kv-heads 2 -d 64 --lse --layout bshd:bhsd --splits 1",
    "-b 3 -H 4 --kv-heads 2 -s 1 -d 64 --kv-cache linear --cache-seqlens 300,0,77 --lse",
    "-b 2 -H 2 -s 70 -d 48 --kv-cache linear --cache-seqlens 130,64 --cache-leftpad 5,31 --lse --causal --layout bshd",
    "-b 2 -H 4 -s 4 -d 64 --kv-cache linear --cache-seqlens 300,7 --append 4 --rotary 32 --causal --lse --splits 3",
    "-b 2 -H 4 --kv-heads 2 -s 3 -d 128 --kv-cache linear --cache-seqlens 126,7 --cache-leftpad 3,11 --append 3"
    " --rotary 64:interleaved --causal --lse --layout bshd",
    "-b 2 -H 4 --kv-heads 1 -s 1 -d 72 --kv-cache linear --cache-seqlens 255,31 --append 1 --rotary 48 --lse",
    "-b 2 -H 2 -s 6 -d 64 --kv-cache linear --cache-seqlens 255,31 --append 2 --lse --mask window:20,0",
    "-b 2 -H 4 -s 4 -d 64 --kv-cache linear --cache-seqlens 130,7 --append 4 --rotary 32 --rotary-base 500000 --causal --lse",
    "-b 2 -H 4 -s 4 -d 64 --kv-cache linear --cache-seqlens 130,7 --cache-leftpad 0,9 --append 4 --rotary 32:interleaved"
    " --rotary-cos filled --rotary-sin filled --cache-batch-idx 2,0 --causal --lse --splits 2",
    "-b 3 -H 4 --kv-heads 2 -s 1 -d 64 --kv-cache linear --cache-seqlens 300,0,77 --cache-batch-idx 4,4,1 --lse --layout bshd",
    "-b 2 -H 4 --kv-heads 2 -s 4 -d 64 --kv-cache paged:256 --cache-seqlens 700,7 --append 4 --rotary 32:interleaved --causal --lse",
    "-b 2 -H 4 --kv-heads 2 -s 1 -d 128 --kv-cache paged:256 --cache-seqlens 300,513 --lse --dtype bf16",
    "-b 2 -H 2 -s 80 -d 192 --kv-cache paged:512 --cache-seqlens 600,100 --lse --causal --alibi --splits 1",
    "--seqlens-q 1,1,1 --kv-cache paged:256 --cache-seqlens 300,0,513 -H 4 --kv-heads 2 -d 64 --lse",
    "--seqlens-q 1,1 --kv-cache paged:256 --cache-seqlens 30,257 -H 4 --kv-heads 2 -d 64 --lse --splits 1",
    "--seqlens-q 70,2,9 --kv-cache paged:256 --cache-seqlens 60,0,300 -H 4 --kv-heads 2 -d 64 --lse --causal",
    "--seqlens-q 3,70 --kv-cache linear --cache-seqlens 60,200 -H 4 --kv-heads 2 -d 64 --lse --causal",
    f"{BWD} -b 2 -H 4 --kv-heads 2 -s 130 --seqlen-k 140 -d 64 --causal",
    f"{BWD} -b 2 -H 2 -s 256 -d 64 --dtype bf16 --layout bshd",
    f"{BWD} -b 1 -H 2 -s 64 --seqlen-k 256 -d 128 --causal --deterministic",
    f"{BWD} -b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 90 -d 64 --softcap 10 --deterministic --layout bshd:bhsd",
    f"{BWD} -b 2 -H 2 -s 90 --seqlen-k 40 -d 104 --mask window:11,6 --alibi",
    f"{BWD} -b 2 -H 2 -s 90 --seqlen-k 140 -d 96 --dropout 0.25 --seed 9 --offset 1 --causal --alibi-slopes filled:bh",
    f"{BWD} -b 1 -H 2 -s 40 --seqlen-k 70 -d 192 --dropout 0.1 --seed 3",
    f"{BWD} -b 1 -H 2 -s 70 --seqlen-k 100 -d 256 --causal",
    f"{BWD} -b 2 -H 2 -s 150 --seqlen-k 30 -d 32 --causal",
    f"{BWD} --seqlens-q 130,0,3,9 --seqlens-k 50,4,0,200 -H 4 --kv-heads 1 -d 40 --dropout 0.3 --alibi --causal",
    f"{BWD} --seqlens-q 130,0,3 --seqlens-k 50,4,0 -H 4 --kv-heads 2 -d 64 --mask window:7,30 --deterministic --layout bshd",
)
"""Flags of problems that FlashAttention supports."""

DTYPES = ("fp16", "bf16")
HDIMS = (8, 32, 40, 64, 64, 64, 72, 96, 128, 128, 136, 192, 256)
LENGTHS = (1, 2, 7, 31, 63, 64, 65, 100, 127, 128, 129, 150, 256, 257)
MASKS = ("causal", "causal", "window:20,0", "window:9,14", "window:-1,3", "window:60,-1", "window:0,0", "causal-tl")
KINDS = (
    "fwd",
    "fwd",
    "dropout",
    "varlen",
    "varlen",
    "decode",
    "split",
    "linear",
    "append",
    "paged",
    "bwd",
    "bwd",
    "bwd_group",
)


def random_problem(rng: Random) -> Problem:
    """A small random problem; contradictory draws are repeated."""
    while True:
        try:
            return Problem.of(**_flags(rng))
        except ImpossibleProblem:
            continue


def _flags(rng: Random) -> dict[str, Any]:
    kind, kv_heads = rng.choice(KINDS), rng.choice([1, 1, 2, 3])
    flags: dict[str, Any] = {
        "heads": kv_heads * rng.choice([1, 1, 2, 4]),
        "kv_heads": kv_heads,
        "hdim": rng.choice(HDIMS),
        "dtype": rng.choice(DTYPES),
        "layout": rng.choice(["bhsd", "bshd", "bhsd:bshd", "bshd:bhsd"]),
        "lse": rng.random() < 0.8,
    }
    if rng.random() < 0.6:
        flags["mask"] = rng.choice(MASKS)
    if rng.random() < 0.25:
        flags |= rng.choice([{"alibi": True}, {"alibi_slopes": "filled:h"}, {"alibi_slopes": "filled:bh"}])
    if rng.random() < 0.2:
        flags["scale"] = rng.choice([0.05, 0.3])
    backward = kind.startswith("bwd")
    if kind == "dropout" or (backward and rng.random() < 0.35):
        flags |= {
            "dropout": rng.choice([0.1, 0.37, 0.8]),
            "seed": rng.randrange(1 << 64),
            "offset": rng.randrange(1 << 40),
        }
    elif rng.random() < 0.2:
        flags["softcap"] = rng.choice([5.0, 20.0])
    if backward:
        flags |= {"direction": "bwd", "deterministic": rng.random() < 0.4}
    return flags | _lengths(rng, kind)


def _lengths(rng: Random, kind: str) -> dict[str, Any]:
    batch = rng.choice([1, 2, 2, 3])
    if kind in ("varlen", "bwd_group"):
        one = kind == "varlen" and rng.random() < 0.3
        rows = [1 if one else rng.choice([0, *LENGTHS]) for _ in range(batch)]
        keys = [rng.choice([0, *LENGTHS]) for _ in range(batch)]
        return {"seqlens_q": ",".join(map(str, rows)), "seqlens_k": ",".join(map(str, keys))}
    rows, keys = rng.choice(LENGTHS), rng.choice(LENGTHS)
    if kind == "decode":
        return {"batch": batch, "seqlen": 1, "seqlen_k": rng.choice([300, 700, 1500])}
    if kind == "split":
        return {
            "batch": batch,
            "seqlen": rows,
            "seqlen_k": rng.choice([100, 500, 900]),
            "splits": rng.choice([1, 2, 3, 5, 17]),
        }
    if kind in ("linear", "append", "paged"):
        return _cache(rng, kind, batch)
    return {"batch": batch, "seqlen": rows, "seqlen_k": keys if rng.random() < 0.95 else 0}


def _cache(rng: Random, kind: str, batch: int) -> dict[str, Any]:
    flags: dict[str, Any] = {"kv_cache": "paged:256" if kind == "paged" or rng.random() < 0.3 else "linear"}
    flags["cache_seqlens"] = ",".join(str(rng.choice([0, 5, 100, 255, 256, 300, 600])) for _ in range(batch))
    if rng.random() < 0.3:
        flags["splits"] = rng.choice([1, 2, 3])
    if kind != "append" and rng.random() < 0.3:
        flags["seqlens_q"] = ",".join(str(rng.choice([1, 2, 9, 70])) for _ in range(batch))
        return flags
    rows = rng.choice([1, 1, 2, 4, 70])
    flags |= {"batch": batch, "seqlen": rows}
    if kind == "append":
        flags["append"] = rows if rng.random() < 0.8 else rng.choice([1, 3])
        if rng.random() < 0.7:
            flags["rotary"] = rng.choice(["16", "32", "32:interleaved", "64:interleaved"])
    if flags["kv_cache"] == "linear" and "seqlens_q" not in flags and rng.random() < 0.3:
        flags["cache_batch_idx"] = ",".join(map(str, rng.sample(range(7), flags["batch"])))
    if flags["kv_cache"] == "linear" and rng.random() < 0.4:
        flags["cache_leftpad"] = ",".join(str(rng.choice([0, 1, 7, 40])) for _ in range(batch))
    return flags
