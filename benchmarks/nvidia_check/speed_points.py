"""The shapes that are timed beside PyTorch: training shapes with constant work per call, and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

TOKENS, WIDTH = 16384, 2048
"""Tokens per call and heads * hdim, as in upstream's own benchmark."""
SEQLENS = (1024, 2048, 4096, 8192, 16384)
HDIMS = (64, 128)
GOAL = 0.97
"""The minimum of PyTorch's time / ours."""


@dataclass(frozen=True)
class Point:
    """One timed problem. ``kind``: forward, backward or decode; ``causal`` and the sizes repeat the flags."""

    kind: str
    name: str
    flags: str
    causal: bool

    @property
    def part(self) -> str:
        """The part of the check that it belongs to."""
        return "decode" if self.kind == "decode" else "speed"


def training() -> tuple[Point, ...]:
    """FlashAttention: d 64 and 128, 1k to 16k tokens, causal or not, forward and backward.

    The largest come first, so that an interrupted run has the most informative ones.
    """
    out = []
    for seqlen, hdim, causal, kind in product(reversed(SEQLENS), HDIMS, (False, True), ("forward", "backward")):
        flags = f"-b {TOKENS // seqlen} -H {WIDTH // hdim} -s {seqlen} -d {hdim} --dtype bf16 --layout bshd"
        flags += " --causal" if causal else ""
        flags += " --direction bwd" if kind == "backward" else " --lse --splits 1"
        name = f"{kind} d{hdim} s{seqlen}{' causal' if causal else ''}"
        out.append(Point(kind, name, flags, causal))
    return tuple(out)


def decoding() -> tuple[Point, ...]:
    """One query row of grouped heads over a long cache: memory bandwidth is the limit."""
    out = []
    for batch, keys in ((1, 65536), (4, 16384), (16, 8192), (64, 4096)):
        flags = f"-b {batch} -H 32 --kv-heads 8 -s 1 --seqlen-k {keys} -d 128 --dtype bf16 --layout bshd --lse"
        out.append(Point("decode", f"decode b{batch} k{keys}", flags, False))
    return tuple(out)


FLASH_POINTS = (*decoding(), *training())
