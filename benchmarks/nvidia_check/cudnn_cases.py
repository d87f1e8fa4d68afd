"""The cases of cuDNN's published kernels: both head dims, the layouts, groups of heads, LSE and lengths."""

from __future__ import annotations

from random import Random

from check_case import FWD, CheckCase

from fmha_cli.domain.problem import Problem
from nvidia_check import random_flags
from nvidia_check.speed_points import Point

ROWS = 128
"""The rows of the smallest tile. A draw that does not fill a larger one is refused there, and repeated."""
CASES: tuple[CheckCase, ...] = (
    CheckCase("d64", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --mask causal-tl", FWD),
    CheckCase("d128", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --mask causal-tl", FWD),
    CheckCase("d64, LSE, bshd", "-b 2 -H 4 -s 256 -d 64 --dtype bf16 --causal --lse --layout bshd", FWD),
    CheckCase("d128, LSE, bshd", "-b 1 -H 3 -s 768 -d 128 --dtype bf16 --causal --lse --layout bshd", FWD),
    CheckCase("GQA", "-b 2 -H 8 --kv-heads 2 -s 512 -d 128 --dtype bf16 --causal --lse", FWD),
    CheckCase("MQA", "-b 3 -H 6 --kv-heads 1 -s 256 -d 64 --dtype bf16 --causal --lse", FWD),
    CheckCase("one tile", "-b 1 -H 1 -s 256 -d 128 --dtype bf16 --mask causal-tl --lse", FWD),
    CheckCase("many heads", "-b 5 -H 33 -s 256 -d 64 --dtype bf16 --mask causal-tl", FWD),
    CheckCase("scale", "-b 1 -H 4 -s 512 -d 128 --dtype bf16 --mask causal-tl --scale 0.25 --lse", FWD),
    CheckCase("layouts differ", "-b 2 -H 4 -s 256 -d 128 --dtype bf16 --mask causal-tl --layout bshd:bhsd", FWD),
    CheckCase("long, more heads than the L2 cache holds", "-b 1 -H 27 --kv-heads 9 -s 4096 -d 128 --dtype bf16 --causal", FWD),
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
    """The flags of a random problem of the base's kind, with any mask that is top-left causal at these lengths."""
    rows = ROWS * rng.randint(1, 8)
    masks = ("causal", "causal-tl", f"window:{rows - 1},0", f"window-tl:{rows + 70},0")
    out = [*random_flags.heads(rng, (1, 1, 2, 3, 4, 8)), "-d", str(base.hdim), "-b", str(rng.choice((1, 1, 2, 3)))]
    out += ["-s", str(rows), "--dtype", "bf16", "--mask", rng.choice(masks), *random_flags.layout(rng)]
    return [*out, *random_flags.scale(rng, 0.3), *(["--lse"] if base.lse else [])]
