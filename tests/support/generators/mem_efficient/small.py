"""Small problems for the model of the memory-efficient kernels: a hand-written list with every feature, and random ones."""

from __future__ import annotations

from random import Random
from typing import Any

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import Bias
from fmha_cli.domain.problem import Problem

BWD = "--direction bwd"
DIRECTED = (
    "sm_90 -b 2 -H 2 -s 70 -d 64 --lse --dtype bf16 --dropout 0.1 --seed 77 --offset 9",
    "sm_90 -b 2 -H 3 -s 40 --seqlen-k 90 -d 128 --hdim-v 40 --causal --lse --layout bshd:bhsd --dropout 0.3",
    "sm_90 -b 1 -H 2 -s 40 --seqlen-k 200 -d 160 --mask window:50,0 --lse --dtype bf16",
    "sm_90 -b 1 -H 2 -s 160 --seqlen-k 60 -d 160 --mask window-tl:30,0 --lse",
    "sm_90 -b 1 -H 2 -s 160 --seqlen-k 60 -d 40 --mask window-tl:30,0 --lse",
    "sm_75 -b 2 -H 2 -s 40 --seqlen-k 90 -d 20 --hdim-v 44 --lse --layout bshd",
    "sm_75 -b 1 -H 2 -s 33 --seqlen-k 70 -d 21 --hdim-v 13 --dtype fp32 --lse --bias elementwise:bhss",
    "sm_86 -b 1 -H 2 -s 40 --seqlen-k 70 -d 100 --dtype fp32 --lse --mask causal-tl",
    "sm_80 -b 2 -H 4 --kv-heads 1 -s 65 --seqlen-k 90 -d 64 --mask causal-tl",
    "sm_80 -b 2 -H 70 --kv-heads 1 -s 1 --seqlen-k 40 -d 32 --layout bshd",
    "sm_80 -b 2 -H 6 --kv-heads 2 -s 33 --seqlen-k 91 -d 66 --bias elementwise:1hss --lse",
    "sm_120 -b 1 -H 2 -s 33 --seqlen-k 96 -d 64 --bias elementwise:11ss --causal --scale 0.3",
    "sm_80 -b 2 -H 2 -s 33 --seqlen-k 91 -d 64 --bias elementwise:b11s --lse",
    "sm_90 -b 2 -H 2 -s 33 --seqlen-k 96 -d 64 --bias elementwise:b1ss --dtype bf16",
    "sm_80 --seqlens-q 70,0,33,7 --seqlens-k 80,5,0,64 -H 2 -d 64 --lse --bias elementwise:111s",
    "sm_80 --seqlens-q 70,0,33,7 --seqlens-k 50,5,0,64 -H 4 --kv-heads 2 -d 32 --lse --dropout 0.5",
    "sm_80 --seqlens-q 70,0,33,7 --seqlens-k 80,5,0,64 -H 2 -d 160 --lse --causal --layout bshd",
    "sm_80 --seqlens-q 70,0,33,7 --seqlens-k 80,5,0,64 -H 2 -d 72 --lse --mask window:20,0 --bias elementwise:11ss",
    "sm_80 -b 3 -H 4 --kv-heads 2 -s 5 -d 64 --kv-cache linear --cache-seqlens 100,0,77 --lse --dropout 0.2",
    "sm_80 -b 2 -H 2 -s 70 -d 48 --kv-cache linear --cache-seqlens 130,74 --cache-leftpad 5,31 --lse --causal --layout bshd",
    "sm_80 --seqlens-q 3,70 --kv-cache linear --cache-seqlens 60,90 -H 4 --kv-heads 1 -d 64 --lse --causal",
    "sm_80 -s 64 --seqlen-k 0 --lse",
    "sm_80 -b 1 -H 1 -s 5 -d 1024 --lse",
    f"sm_86 {BWD} -b 1 -H 2 -s 130 --seqlen-k 140 -d 128 --causal --dtype bf16",
    f"sm_89 {BWD} -b 1 -H 2 -s 130 --seqlen-k 70 -d 96 --mask causal-tl",
    f"sm_90 {BWD} -b 1 -H 2 -s 130 --seqlen-k 140 -d 100 --hdim-v 72 --causal --layout bshd",
    f"sm_90 {BWD} -b 1 -H 1 -s 130 --seqlen-k 140 -d 200 --dropout 0.2 --seed 3 --dtype bf16",
    f"sm_90 {BWD} -b 2 -H 4 --kv-heads 2 -s 40 --seqlen-k 70 -d 64 --bias elementwise:11ss --dbias --dtype bf16",
    f"sm_90 {BWD} -b 2 -H 4 --kv-heads 1 -s 40 --seqlen-k 71 -d 32 --bias elementwise:1hss --dbias --mask causal-tl",
    f"sm_90 {BWD} -b 2 -H 2 -s 40 --seqlen-k 71 -d 32 --bias elementwise:b11s --dbias",
    f"sm_80 {BWD} -b 2 -H 2 -s 40 --seqlen-k 72 -d 32 --bias elementwise:1h1s --dbias --dtype bf16",
    f"sm_80 {BWD} -b 1 -H 2 -s 200 -d 64 --mask window:30,0",
    f"sm_80 {BWD} -b 1 -H 2 -s 200 --seqlen-k 90 -d 64 --mask window-tl:30,0 --dtype fp32",
    f"sm_80 {BWD} -b 1 -H 2 -s 140 --seqlen-k 70 -d 136 --causal --bias elementwise:bhss --dbias",
    f"sm_80 {BWD} --seqlens-q 70,0,33,7 --seqlens-k 50,5,0,130 -H 4 --kv-heads 2 -d 32 --dropout 0.5",
    f"sm_80 {BWD} --seqlens-q 70,33,7 --seqlens-k 130,0,90 -H 2 -d 72 --layout bshd:bhsd",
    f"sm_75 {BWD} -b 1 -H 2 -s 70 --seqlen-k 90 -d 20 --dropout 0.3",
    f"sm_75 {BWD} -b 1 -H 2 -s 70 --seqlen-k 90 -d 133 --dtype fp32",
    f"sm_80 {BWD} -b 1 -H 2 -s 128 --seqlen-k 256 -d 64 --deterministic",
    f"sm_90 {BWD} -b 130 -H 2 -s 3 --seqlen-k 70 -d 32",
    f"sm_80 {BWD} -b 1 -H 2 -s 50 --seqlen-k 0 -d 64 --bias elementwise --dbias",
)
"""Architectures and flags of problems that the kernels serve."""

RANKS = [rank.value for rank in Bias if rank is not Bias.NONE]
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_120")
HDIMS = (8, 16, 20, 32, 37, 64, 64, 72, 96, 100, 128, 130, 200)
LENGTHS = (1, 2, 7, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 150, 192, 256)
MASKS = ("causal", "causal", "causal-tl", "window:20,0", "window-tl:9,0", "window:60,0", "window-tl:0,0")


def random_problem(rng: Random, arch: str) -> Problem:
    """A small random problem; contradictory draws are repeated."""
    while True:
        try:
            return Problem.of(**_flags(rng, arch))
        except ImpossibleProblem:
            continue


def _flags(rng: Random, arch: str) -> dict[str, Any]:
    kv_heads, backward = rng.choice([1, 1, 2, 3]), rng.random() < 0.5
    flags: dict[str, Any] = {
        "heads": kv_heads * rng.choice([1, 1, 2, 4]),
        "kv_heads": kv_heads,
        "hdim": rng.choice(HDIMS),
        "dtype": rng.choice(["fp16", "fp32"] if arch == "sm_75" else ["fp16", "bf16", "bf16", "fp32"]),
        "layout": rng.choice(["bhsd", "bshd", "bhsd:bshd", "bshd:bhsd"]),
        "lse": rng.random() < 0.7,
        "mask": rng.choice(MASKS) if rng.random() < 0.6 else "none",
    }
    if rng.random() < 0.3:
        flags["hdim_v"] = rng.choice(HDIMS)
    if rng.random() < 0.2:
        flags["scale"] = rng.choice([0.05, 0.3])
    if rng.random() < 0.35:
        flags |= {
            "dropout": rng.choice([0.1, 0.37, 0.8]),
            "seed": rng.randrange(1 << 64),
            "offset": rng.randrange(1 << 40),
        }
    if backward:
        flags |= {"direction": "bwd", "deterministic": rng.random() < 0.3}
    packed = rng.random() < 0.35
    if rng.random() < 0.3 and not (packed and backward):
        flags["bias"] = f"elementwise:{rng.choice(RANKS)}"
        flags["dbias"] = backward and rng.random() < 0.7
    return flags | _lengths(rng, packed, backward)


def _lengths(rng: Random, packed: bool, backward: bool) -> dict[str, Any]:
    batch = rng.choice([1, 2, 2, 3])
    if packed and not backward and rng.random() < 0.4:
        out: dict[str, Any] = {"kv_cache": "linear", "batch": batch, "seqlen": rng.choice([1, 2, 40, 70])}
        out["cache_seqlens"] = ",".join(str(rng.choice([0, 5, 70, 100, 150])) for _ in range(batch))
        if rng.random() < 0.5:
            out["cache_leftpad"] = ",".join(str(rng.choice([0, 1, 7, 40])) for _ in range(batch))
        return out
    if packed:
        rows, keys = (",".join(str(rng.choice([0, *LENGTHS])) for _ in range(batch)) for _ in range(2))
        return {"seqlens_q": rows, "seqlens_k": rows if rng.random() < 0.3 else keys}
    rows = rng.choice(LENGTHS)
    return {"batch": batch, "seqlen": rows, "seqlen_k": rows if rng.random() < 0.3 else rng.choice(LENGTHS)}
