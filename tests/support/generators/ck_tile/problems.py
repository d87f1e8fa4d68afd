"""Random problems for CK-Tile. Some kernel supports most of them; the rest lie near the edges of support."""

from __future__ import annotations

from random import Random
from typing import Any

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem

KINDS = ("fwd", "fwd", "fwd", "split", "auto", "linear", "paged", "paged", "append", "prefill", "bwd", "bwd")
HEAD_DIMS = (32, 64, 64, 96, 128, 128, 128, 192, 256)
ODD_HEAD_DIMS = (8, 16, 24, 40, 48, 56, 72, 80, 100, 112, 120, 136, 160, 200, 255, 264)
LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 192, 255, 256, 257, 300, 384, 512, 640, 1024)


def random_problem(rng: Random, kind: str | None = None) -> Problem:
    """A random problem; contradictory draws are repeated."""
    while True:
        try:
            return Problem.of(**_flags(rng, kind or rng.choice(KINDS)))
        except ImpossibleProblem:
            continue


def _flags(rng: Random, kind: str) -> dict[str, Any]:
    flags: dict[str, Any] = _shape(rng, kind)
    if rng.random() < 0.5:
        flags["mask"] = rng.choice(["causal", "causal-tl", "window:32,0", "window-tl:16,16", "b:-1,0", "xt:40"])
    if rng.random() < 0.3:
        ranks = ["elementwise", "elementwise:1hss", "elementwise:b11s", "elementwise:111s", "elementwise:bhss", "alibi"]
        flags["bias"] = rng.choice(ranks if kind != "bwd" else ranks[2:])
    elif rng.random() < 0.2 and kind != "bwd":
        flags["softcap"] = 30.0
    if rng.random() < 0.25:
        flags["lse"] = True
    if kind in ("fwd", "prefill", "bwd") and rng.random() < 0.25:
        flags["dropout"] = 0.2
    if kind == "bwd":
        flags["direction"] = "bwd"
        flags["deterministic"] = rng.random() < 0.3
        flags["dbias"] = flags.get("bias") == "elementwise:bhss" and rng.random() < 0.5
    if kind == "paged" and rng.random() < 0.6:  # the shape that paged prefill kernels are compiled for
        flags |= {"hdim": 128, "hdim_v": 128}
        flags.pop("lse", None)
    flags["layout"] = rng.choice(["bhsd", "bshd"])
    if flags["dtype"].startswith("fp8") and rng.random() < 0.8:  # no fp8 kernel supports these
        for name in ("lse", "dropout", "softcap"):
            flags.pop(name, None)
    return flags


def _shape(rng: Random, kind: str) -> dict[str, Any]:
    kv_heads = rng.choice([1, 2, 4])
    hdim = _head_dim(rng)
    eight = ["fp8_e4m3", "fp8_e4m3:fp8_e4m3", "fp8_e4m3:fp32"] if kind == "fwd" else ["fp8_e4m3:fp8_e4m3"]
    dtypes = ["fp16", "bf16"] * 4 + (["fp32"] * 2 if kind == "bwd" else [*eight, "fp32"])
    flags: dict[str, Any] = {
        "heads": kv_heads * rng.choice([1, 1, 2, 8]),
        "kv_heads": kv_heads,
        "hdim": hdim,
        "hdim_v": hdim if rng.random() < 0.7 else _head_dim(rng),
        "dtype": rng.choice(dtypes),
        "splits": "1"
        if kind not in ("split", "auto")
        else "auto"
        if kind == "auto"
        else str(rng.choice([2, 5, 8, 33, 128])),
    }
    if flags["dtype"].startswith("fp8") and rng.random() < 0.6:
        flags["qscale"] = "tensor"
    batch = rng.choice([1, 2, 3])
    group = rng.random() < 0.3 and kind not in ("linear", "append")
    if group:
        flags["seqlens_q"] = ",".join(str(rng.choice(LENGTHS)) for _ in range(batch))
    else:
        flags |= {"batch": batch, "seqlen": rng.choice(LENGTHS)}
    if kind in ("linear", "paged", "append", "prefill"):
        return flags | _cache(rng, kind, batch)
    if group:
        flags["seqlens_k"] = ",".join(str(rng.choice([0, *LENGTHS])) for _ in range(batch))
    else:
        flags["seqlen_k"] = rng.choice([0, *LENGTHS, *LENGTHS])
    return flags


def _head_dim(rng: Random) -> int:
    return rng.choice(HEAD_DIMS if rng.random() < 0.6 else ODD_HEAD_DIMS)


def _cache(rng: Random, kind: str, batch: int) -> dict[str, Any]:
    lengths = [rng.choice(LENGTHS) for _ in range(batch)]
    if rng.random() < 0.5:
        lengths = lengths[:1] * batch
    page = 1 if kind == "prefill" else rng.choice([128, 128, 256, 512])
    linear = kind == "linear" or (kind == "append" and rng.random() < 0.5)
    out: dict[str, Any] = {
        "cache_seqlens": ",".join(map(str, lengths)),
        "kv_cache": "linear" if linear else f"paged:{page}",
        "splits": "1" if kind == "prefill" else rng.choice(["1", "1", "1", "auto", "4"]),
    }
    if kind == "append":
        out["append"] = rng.choice([1, 3, 64])
        if rng.random() < 0.5:
            out |= {"rotary": rng.choice(["16", "32:interleaved"]), "seqlen": out["append"]}
    if linear and rng.random() < 0.3:
        out["cache_batch_idx"] = ",".join(map(str, rng.sample(range(5), batch)))
    return out
