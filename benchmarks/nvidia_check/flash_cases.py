"""FlashAttention's cases: every family and feature, forward and backward, at sizes that the oracle checks in full; its
timed problems: training shapes with constant work per call, and decoding; and its random problems."""

from __future__ import annotations

from itertools import product
from random import Random

from check_case import BWD, FWD, SPLITKV, CheckCase, of_head_dims

from fmha_cli.domain.features import Alibi, CacheKind
from fmha_cli.domain.problem import Problem
from nvidia_check import random_flags
from nvidia_check.random_flags import listed, size
from nvidia_check.speed_points import Point

SPLIT_ALONE = ("fwd_splitkv",)


BUCKETS = (0, 32, 64, 96, 128, 192, 256)
HEAD_DIMS = (
    (32, "fp16", 24, "bf16"),
    (64, "bf16", 40, "fp16"),
    (96, "fp16", 80, "bf16"),
    (128, "bf16", 104, "fp16"),
    (192, "fp16", 160, "bf16"),
    (256, "bf16", 224, "fp16"),
)

FORWARD = (
    CheckCase("causal", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --splits 1", FWD),
    CheckCase("causal d64", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --causal --splits 1", FWD),
    CheckCase("causal, GQA, LSE, bshd", "-b 2 -H 8 --kv-heads 2 -s 200 --seqlen-k 450 -d 128 --dtype bf16 --causal --lse --layout bshd --splits 1", FWD),
    CheckCase("more queries than keys", "-b 1 -H 4 -s 450 --seqlen-k 130 -d 128 --dtype bf16 --causal --lse --splits 1", FWD),
    CheckCase("one key", "-b 2 -H 4 -s 70 --seqlen-k 1 -d 128 --dtype bf16 --splits 1", FWD),
    CheckCase("MQA", "-b 2 -H 6 --kv-heads 1 -s 130 -d 128 --dtype bf16 --splits 1", FWD),
    CheckCase("window", "-b 1 -H 4 -s 500 -d 128 --dtype bf16 --mask window:100,30 --splits 1", FWD),
    CheckCase("window, left alone", "-b 1 -H 4 -s 500 -d 64 --dtype fp16 --mask window:64,-1 --splits 1", FWD),
    CheckCase("window, no future", "-b 1 -H 4 -s 500 --seqlen-k 700 -d 128 --dtype bf16 --mask window:128,0 --lse --splits 1", FWD),
    CheckCase("ALiBi", "-b 2 -H 4 -s 300 -d 64 --dtype fp16 --alibi --splits 1", FWD),
    CheckCase("ALiBi, causal, LSE", "-b 2 -H 4 -s 300 -d 64 --dtype fp16 --alibi-slopes filled:bh --causal --lse --splits 1", FWD),
    CheckCase("softcap", "-b 1 -H 4 -s 500 -d 128 --dtype bf16 --softcap 30 --splits 1", FWD),
    CheckCase("softcap, causal", "-b 1 -H 4 -s 500 -d 128 --dtype bf16 --softcap 5 --causal --splits 1", FWD),
    CheckCase("dropout", "-b 2 -H 4 -s 300 -d 128 --dtype fp16 --dropout 0.17 --seed 7 --offset 64 --splits 1", FWD),
    CheckCase("dropout, causal", "-b 2 -H 4 -s 300 -d 64 --dtype fp16 --dropout 0.5 --seed 77777777777 --causal --splits 1", FWD),
    CheckCase("packed", "--seqlens-q 300,1,150 -H 4 -d 128 --dtype bf16 --lse --splits 1", FWD),
    CheckCase("packed, causal, GQA, bshd", "--seqlens-q 100,17,70 --seqlens-k 300,40,70 -H 8 --kv-heads 2 -d 128 --dtype bf16 --causal --layout bshd --splits 1", FWD),
    CheckCase("packed, empty sequences", "--seqlens-q 100,0,70 --seqlens-k 90,40,0 -H 4 -d 128 --dtype bf16 --lse --splits 1", FWD),
    CheckCase("scale", "-b 1 -H 4 -s 300 -d 128 --dtype bf16 --scale 0.25 --splits 1", FWD),
)  # fmt: skip

CACHED = (
    CheckCase("decode, split", "-b 3 -H 8 --kv-heads 2 -s 1 --kv-cache linear --cache-seqlens 3000,17,1025 -d 128 --dtype bf16 --lse --splits 8", SPLITKV),
    CheckCase("decode d64, split", "-b 2 -H 8 -s 1 --kv-cache linear --cache-seqlens 2000 -d 64 --dtype fp16 --splits 20", SPLITKV),
    CheckCase("split, causal", "-b 1 -H 4 -s 70 --seqlen-k 2000 -d 128 --dtype bf16 --causal --lse --splits 4", SPLITKV),
    CheckCase("split, ALiBi", "-b 1 -H 4 -s 3 --seqlen-k 2000 -d 64 --dtype fp16 --alibi --splits 3", SPLITKV),
    CheckCase("split, window", "-b 1 -H 4 -s 9 --seqlen-k 2000 -d 128 --dtype bf16 --mask window:900,0 --splits 4", SPLITKV),
    CheckCase("split, softcap", "-b 1 -H 4 -s 9 --seqlen-k 2000 -d 128 --dtype bf16 --softcap 20 --splits 4", SPLITKV),
    CheckCase("split d256", "-b 1 -H 4 -s 9 --seqlen-k 2000 -d 256 --dtype bf16 --splits 40", SPLITKV),
    CheckCase("left padding", "-b 3 -H 8 --kv-heads 2 -s 4 --kv-cache linear --cache-seqlens 500,17,1025 --cache-leftpad 3,0,70 -d 128 --dtype bf16 --causal --lse --splits 6", SPLITKV),
    CheckCase("pages", "-b 3 -H 8 --kv-heads 2 -s 4 --kv-cache paged:256 --cache-seqlens 900,17,1025 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    CheckCase("pages, split", "-b 3 -H 8 --kv-heads 2 -s 1 --kv-cache paged:512 --cache-seqlens 3000,17,1025 -d 128 --dtype bf16 --splits 4", SPLITKV),
    CheckCase("append", "-b 3 -H 8 --kv-heads 2 -s 5 --kv-cache linear --cache-seqlens 500,0,1025 --append 5 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    CheckCase("append, rotary", "-b 2 -H 4 -s 9 --kv-cache linear --cache-seqlens 500,77 --append 9 --rotary 64 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    CheckCase("append, rotary interleaved", "-b 2 -H 4 -s 9 --kv-cache linear --cache-seqlens 500,77 --append 9 --rotary 128:interleaved -d 128 --dtype bf16 --causal --splits 3", SPLITKV),
    CheckCase("append, pages", "-b 2 -H 4 -s 9 --kv-cache paged:256 --cache-seqlens 500,250 --append 9 --rotary 32 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    CheckCase("append, left padding, rotary", "-b 2 -H 4 -s 3 --kv-cache linear --cache-seqlens 500,77 --cache-leftpad 9,200 --append 3 --rotary 64 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
)  # fmt: skip

BACKWARD = (
    CheckCase("backward, causal", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, causal d64", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, GQA, bshd", "-b 1 -H 6 --kv-heads 2 -s 200 --seqlen-k 333 -d 128 --dtype bf16 --causal --layout bshd --direction bwd", BWD),
    CheckCase("backward, window", "-b 1 -H 4 -s 400 -d 128 --dtype bf16 --mask window:100,30 --direction bwd", BWD),
    CheckCase("backward, ALiBi", "-b 1 -H 4 -s 400 -d 64 --dtype fp16 --alibi --causal --direction bwd", BWD),
    CheckCase("backward, softcap", "-b 1 -H 4 -s 400 -d 128 --dtype bf16 --softcap 30 --direction bwd", BWD),
    CheckCase("backward, dropout", "-b 1 -H 4 -s 400 -d 64 --dtype fp16 --dropout 0.17 --seed 7 --offset 64 --direction bwd", BWD),
    CheckCase("backward, packed", "--seqlens-q 100,17,70 --seqlens-k 300,40,70 -H 8 --kv-heads 2 -d 128 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, deterministic", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --deterministic --direction bwd", BWD),
    CheckCase("backward, deterministic, uneven", "-b 1 -H 4 -s 200 --seqlen-k 333 -d 64 --dtype bf16 --deterministic --direction bwd", BWD),
)  # fmt: skip

CASES: tuple[CheckCase, ...] = (
    *of_head_dims(HEAD_DIMS, FWD, "--splits 1"),
    *of_head_dims(HEAD_DIMS, BWD, "--direction bwd", "backward "),
    *FORWARD,
    *CACHED,
    *BACKWARD,
)

SANITIZED = (
    "causal, GQA, LSE, bshd",
    "dropout",
    "packed, empty sequences",
    "decode, split",
    "append, pages",
    "backward, causal",
)
"""Cases that run under compute-sanitizer: one for each kind of main kernel."""

TOKENS, WIDTH = 16384, 2048
"""Tokens per call and heads * hdim, as in upstream's own benchmark."""
SEQLENS = (1024, 2048, 4096, 8192, 16384)
HDIMS = (64, 128)


def _training() -> tuple[Point, ...]:
    """d 64 and 128, 1k to 16k tokens, causal or not, forward and backward.

    The largest come first, so an interrupted run has the most informative ones.
    """
    out = []
    for seqlen, hdim, causal, kind in product(reversed(SEQLENS), HDIMS, (False, True), ("forward", "backward")):
        flags = f"-b {TOKENS // seqlen} -H {WIDTH // hdim} -s {seqlen} -d {hdim} --dtype bf16 --layout bshd"
        flags += " --causal" if causal else ""
        flags += " --direction bwd" if kind == "backward" else " --lse --splits 1"
        name = f"{kind} d{hdim} s{seqlen}{' causal' if causal else ''}"
        out.append(Point(kind, name, flags, causal))
    return tuple(out)


def _decoding() -> tuple[Point, ...]:
    """One query row of grouped heads over a long cache: memory bandwidth is the limit."""
    out = []
    for batch, keys in ((1, 65536), (4, 16384), (16, 8192), (64, 4096)):
        flags = f"-b {batch} -H 32 --kv-heads 8 -s 1 --seqlen-k {keys} -d 128 --dtype bf16 --layout bshd --lse"
        out.append(Point("decode", f"decode b{batch} k{keys}", flags, False))
    return tuple(out)


POINTS = (*_decoding(), *_training())


def drawn(base: Problem, rng: Random) -> list[str]:
    """The flags of a random problem of the base's kind."""
    hdim = random_flags.hdim(base, rng, BUCKETS)
    out = [*random_flags.heads(rng, (1, 1, 2, 3, 4, 8)), "-d", str(hdim), "--dtype", base.dtype.value]
    out += [*random_flags.layout(rng), *_lengths(base, rng), *random_flags.mask(base, rng)]
    if base.alibi is not Alibi.NONE:
        out += rng.choice((["--alibi"], ["--alibi-slopes", "filled:h"], ["--alibi-slopes", "filled:bh"]))
    if base.softcap:
        out += ["--softcap", rng.choice(("1", "7.5", "30", "50"))]
    if base.dropout:
        out += random_flags.dropout(rng, step=4)
    out += random_flags.scale(rng, 0.2)
    if base.direction.backward:
        return [*out, "--direction", base.direction.value, *(["--deterministic"] if rng.random() < 0.3 else [])]
    return [*out, "--splits", str(1 if base.splits == 1 else rng.randint(2, 24)), *(["--lse"] if base.lse else [])]


def _lengths(base: Problem, rng: Random) -> list[str]:
    if base.kv_cache.kind is CacheKind.NONE:
        return random_flags.lengths(base, rng, 512)
    batch, new = rng.choice((1, 1, 2, 3)), rng.randint(1, 40) if base.append else 0
    held = [0 if new and rng.random() < 0.15 else size(rng, 1500) for _ in range(batch)]
    paged = base.kv_cache.kind is CacheKind.PAGED
    rows = new or rng.choice((1, 1, 2, 5, 33, 64))
    out = ["-b", str(batch), "-s", str(rows), "--cache-seqlens", listed(held)]
    out += ["--kv-cache", f"paged:{256 * rng.randint(1, 3)}" if paged else "linear"]
    out += [] if paged else random_flags.leftpad(rng, batch, (0, 1, 5, 64, 200))
    if new:
        out += ["--append", str(new)]
    if base.rotary.dim:
        dims = [d for d in (16, 32, 64, 96, 128) if d <= base.hdim]
        out += ["--rotary", f"{rng.choice(dims)}:{rng.choice(('half', 'interleaved'))}"]
    return out
