"""Small random problems to ask backends: of every kind, or of the kinds that libraries have."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem

ASKED = 200
"""The problems of every kind."""


def all_problems(seed: int) -> Iterator[Problem]:
    """``ASKED`` small problems of every kind, the same for the same seed."""
    draw, count = random.Random(seed), 0
    while count < ASKED:
        with suppress(ImpossibleProblem):
            yield Problem.from_cli(_line(draw, plain=count % 2 == 0))
            count += 1


def _line(draw: random.Random, *, plain: bool) -> list[str]:
    kv_heads = draw.choice([1, 2])
    words = ["-b", draw.choice("12"), "-H", str(kv_heads * draw.choice([1, 3])), "--kv-heads", str(kv_heads)]
    words += ["-s", str(draw.choice([1, 7, 33, 64])), "--seqlen-k", str(draw.choice([1, 5, 33, 96]))]
    words += ["-d", str(draw.choice([8, 24, 64])), "--hdim-v", str(draw.choice([8, 40, 64]))]
    words += ["--dtype", draw.choice(["fp32", "fp16", "bf16"])]
    words += ["--layout", draw.choice(["bhsd", "bshd", "bhsd:bshd"])]
    words += draw.choice([[], ["--causal"], ["--mask", "causal-tl"]]) + draw.choice([[], ["--lse"]])
    if plain:
        return words
    more = [
        ["--mask", "window:9,3", "--sink", "2"], ["--mask", "generic:0,4"], ["--softcap", "5"], ["--dropout", "0.3"],
        ["--bias", "elementwise:bhss"], ["--bias", "elementwise:111s"], ["--alibi"], ["--sink-logits", "filled"], ["--kv-cache", "paged:16"],
        ["--kv-cache", "linear", "--append", "1"], ["--direction", "bwd"], ["--dtype", "fp8_e4m3"], ["--splits", "3"],
        ["--qscale", "tensor"], ["--deterministic"],
    ]  # fmt: skip
    return words + draw.choice(more)


def library_problems(seed: int, count: int) -> Iterator[Problem]:
    """Small problems of the kinds that libraries have, for a backend whose kernels are a library's."""
    draw = random.Random(seed)
    while count:
        with suppress(ImpossibleProblem):
            yield Problem.from_cli(_library_line(draw))
            count -= 1


def _library_line(draw: random.Random) -> list[str]:
    kv_heads, rows = draw.choice([1, 2, 3]), draw.choice([1, 1, 5, 7, 33, 64])
    keys = draw.choice([rows, rows, rows, 1, 9, 40, 65])
    hdim = draw.choice([8, 16, 24, 40, 64, 64, 128])
    words = ["-b", draw.choice("112"), "-H", str(kv_heads * draw.choice([1, 1, 2, 4])), "--kv-heads", str(kv_heads)]
    words += ["-s", str(rows), "-d", str(hdim), "--hdim-v", str(draw.choice([hdim, hdim, hdim, 48]))]
    words += ["--dtype", draw.choice(["fp32", "fp32", "fp16", "bf16"])]
    words += ["--layout", draw.choice(["bhsd", "bshd", "bshd", "bhsd:bshd"])]
    words += draw.choice(
        [[], ["--causal"], ["--causal"], ["--mask", "causal-tl"], ["--mask", "window:4,0"], ["--mask", "window:9,3"]]
    )
    cache = ["--kv-cache", "linear", "--cache-seqlens", draw.choice(["1", "9", "40", "40", "12,7"])]
    more = draw.choice(
        [
            [], [], [], [], ["--softcap", "5"], ["--softcap", "5"], ["--sink-logits", "filled"], ["--lse"], ["--alibi"], ["--scale", "0.3"],
            ["--bias", "elementwise"], ["--bias", "elementwise:1hss"], ["--bias", "elementwise:bhss"], ["--bias", "elementwise:b11s"],
            ["--bias", "elementwise:b1ss"], ["--bias", "elementwise:1h1s"], ["--sink", "2"],
            cache, [*cache, "--append", str(rows)], [*cache, "--append", str(rows)], [*cache, "--append", "1", "--rotary", "16"],
            [*cache, "--append", str(rows), "--rotary", "16:interleaved"], ["--dropout", "0.3"], ["--direction", "bwd"],
        ]
    )  # fmt: skip
    return [*words, *([] if "--kv-cache" in more else ["--seqlen-k", str(keys)]), *more]
