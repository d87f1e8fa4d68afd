"""Random problems for memory-efficient attention. Most can be served; the rest lie near the edges of support."""

from __future__ import annotations

from random import Random
from typing import Any

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem
from tests.support.generators.mem_efficient.small import RANKS

KINDS = ("fwd", "fwd", "fwd", "varlen", "cache", "bwd", "bwd", "bwd", "varlen bwd")
HEAD_DIMS = (8, 32, 40, 64, 72, 80, 96, 104, 128, 128, 136, 192, 256, 512)
ODD_HEAD_DIMS = (1, 4, 5, 12, 20, 33, 60, 68, 100, 127, 132, 260)
LENGTHS = (1, 2, 16, 31, 63, 64, 65, 100, 127, 128, 128, 129, 192, 256, 256, 257, 300, 512)
LONG = (1000, 1024, 2048, 4097)


def random_problem(rng: Random, kind: str | None = None) -> Problem:
    """A random problem; contradictory draws are repeated."""
    while True:
        try:
            return Problem.of(**_flags(rng, kind or rng.choice(KINDS)))
        except ImpossibleProblem:
            continue


def _flags(rng: Random, kind: str) -> dict[str, Any]:
    flags = _shape(rng, kind)
    flags["layout"] = rng.choice(["bhsd", "bshd", "bshd", "bhsd:bshd", "bshd:bhsd"])
    if rng.random() < 0.5:
        windows = ["window:32,0", "window-tl:100,0", "window-tl:0,0", "window:5000,0"]
        flags["mask"] = rng.choice(["causal", "causal-tl", "causal-tl", *windows])
    if rng.random() < 0.25:
        flags["bias"] = f"elementwise:{rng.choice(RANKS)}"
        flags["dbias"] = kind == "bwd" and rng.random() < 0.6
    if rng.random() < 0.3:
        flags |= {"dropout": rng.choice([0.1, 0.17, 0.5]), "seed": rng.randrange(1 << 40), "offset": rng.randrange(99)}
    if rng.random() < 0.3:
        flags["scale"] = rng.choice([0.1, 0.3, 1.0])
    if rng.random() < 0.05:
        wrong: list[dict[str, Any]] = [{"softcap": 20.0}, {"alibi": True}, {"dtype": "fp16:fp32"}, {"scale": -1.0}]
        wrong += [{"mask": "window:3,3"}, {"mask": "generic:-3,9"}, {"sink": 3}, {"dropout": 1.0}]
        flags |= rng.choice(wrong)
    flags["lse"] = rng.random() < 0.5
    return flags


def _shape(rng: Random, kind: str) -> dict[str, Any]:
    kv_heads = rng.choice([1, 1, 2, 3, 8])
    odd = rng.random() < 0.15
    flags: dict[str, Any] = {
        "heads": kv_heads * rng.choice([1, 1, 2, 4]),
        "kv_heads": kv_heads,
        "hdim": rng.choice(ODD_HEAD_DIMS if odd else HEAD_DIMS),
        "dtype": rng.choice(["fp32", "fp16", "fp16", "bf16"]),
    }
    if rng.random() < 0.3:
        flags["hdim_v"] = rng.choice(ODD_HEAD_DIMS if odd else HEAD_DIMS)
    if "bwd" in kind:
        flags |= {"direction": "bwd", "deterministic": rng.random() < 0.3}
    batch = rng.choice([1, 1, 2, 3, 7])
    if kind.startswith("varlen"):
        few = rng.random() < 0.3  # decoding: one query each
        flags["seqlens_q"] = ",".join(str(1 if few else rng.choice([0, *LENGTHS])) for _ in range(batch))
        flags["seqlens_k"] = ",".join(str(rng.choice([0, *LENGTHS])) for _ in range(batch))
        return flags
    if kind == "cache":
        flags["kv_cache"] = rng.choice(["linear", "linear", "linear", "paged:16"])
        flags["cache_seqlens"] = ",".join(str(rng.choice(LENGTHS)) for _ in range(batch))
        if flags["kv_cache"] == "linear" and rng.random() < 0.3:
            flags["cache_leftpad"] = ",".join(str(rng.choice([0, 1, 7])) for _ in range(batch))
        return flags | {"batch": batch, "seqlen": rng.choice([1, 1, 3, 64, 100])}
    lengths = (0, *LENGTHS, *LENGTHS, *LENGTHS, *LONG)
    even = rng.random() < 0.3
    flags |= {"batch": batch, "seqlen": rng.choice(LENGTHS), "seqlen_k": rng.choice(lengths)}
    return flags | ({"seqlen": rng.choice([64, 128, 256]), "seqlen_k": rng.choice([64, 128, 256])} if even else {})
