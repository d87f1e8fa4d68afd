"""The cases of cuDNN's published kernels: both head dims, the layouts, groups of heads, LSE and lengths."""

from __future__ import annotations

from random import Random

from check_case import FWD, Case

from fmha_cli.domain.problem import Problem
from nvidia_check.speed_points import Point

ROWS = 256
"""A multiple of the rows of every tile."""
CASES: tuple[Case, ...] = (
    Case("d64", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --mask causal-tl", FWD),
    Case("d128", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --mask causal-tl", FWD),
    Case("d64, LSE, bshd", "-b 2 -H 4 -s 256 -d 64 --dtype bf16 --causal --lse --layout bshd", FWD),
    Case("d128, LSE, bshd", "-b 1 -H 3 -s 768 -d 128 --dtype bf16 --causal --lse --layout bshd", FWD),
    Case("GQA", "-b 2 -H 8 --kv-heads 2 -s 512 -d 128 --dtype bf16 --causal --lse", FWD),
    Case("MQA", "-b 3 -H 6 --kv-heads 1 -s 256 -d 64 --dtype bf16 --causal --lse", FWD),
    Case("one tile", "-b 1 -H 1 -s 256 -d 128 --dtype bf16 --mask causal-tl --lse", FWD),
    Case("many heads", "-b 5 -H 33 -s 256 -d 64 --dtype bf16 --mask causal-tl", FWD),
    Case("scale", "-b 1 -H 4 -s 512 -d 128 --dtype bf16 --mask causal-tl --scale 0.25 --lse", FWD),
    Case("layouts differ", "-b 2 -H 4 -s 256 -d 128 --dtype bf16 --mask causal-tl --layout bshd:bhsd", FWD),
    Case("long", "-b 1 -H 2 -s 4096 -d 128 --dtype bf16 --mask causal-tl --lse", FWD),
)  # fmt: skip
SANITIZED = ("d64", "GQA")
POINTS = tuple(
    Point(
        "forward",
        f"forward d{hdim} s{seqlen} causal",
        f"-b {16384 // seqlen} -H {2048 // hdim} -s {seqlen} -d {hdim} --dtype bf16 --layout bshd --mask causal-tl",
        True,
    )
    for seqlen in (16384, 4096)
    for hdim in (64, 128)
)


def drawn(base: Problem, rng: Random) -> list[str]:
    """The flags of a random problem of the base's kind."""
    kv_heads = rng.choice((1, 1, 2, 3, 4))
    out = ["-H", str(kv_heads * rng.choice((1, 1, 2, 3, 4, 8))), "--kv-heads", str(kv_heads), "-d", str(base.hdim)]
    out += ["-b", str(rng.choice((1, 1, 2, 3))), "-s", str(ROWS * rng.randint(1, 4)), "--dtype", "bf16"]
    out += [
        "--mask",
        rng.choice(("causal", "causal-tl")),
        "--layout",
        rng.choice(("bhsd", "bshd", "bhsd:bshd", "bshd:bhsd")),
    ]
    if rng.random() < 0.3:
        out += ["--scale", rng.choice(("0.05", "0.125", "0.3"))]
    return [*out, *(["--lse"] if base.lse else [])]
