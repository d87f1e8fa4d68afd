"""FlashAttention-3's cases for sm_90a: every family and feature, forward and backward; its timed and its random problems."""

from __future__ import annotations

from itertools import product
from random import Random

from check_case import BWD, FWD, SPLITKV, CheckCase, of_head_dims

from fmha_cli.domain.features import CacheKind, QScale
from fmha_cli.domain.problem import Problem
from nvidia_check import random_flags
from nvidia_check.random_flags import listed, size
from nvidia_check.speed_points import Point

PREPARED, SPLIT_PREPARED = ("fwd_prepare", *FWD), ("fwd_prepare", *SPLITKV)
GROUPED = (*BWD, "bwd_convert_dq", "bwd_convert_dq")
"""Grouped heads add a kernel that rounds dK, and one that rounds dV."""
BUCKETS = (0, 64, 96, 128, 192, 256)
HEAD_DIMS = (
    (64, "bf16", 40, "fp16"),
    (96, "fp16", 80, "bf16"),
    (128, "bf16", 104, "fp16"),
    (192, "fp16", 160, "bf16"),
    (256, "bf16", 224, "fp16"),
)
FP8 = "--dtype fp8_e4m3:bf16 --splits 1"
_RAGGED = "--seqlens-q 70,1,130 --seqlens-k 500,300,130"
_CACHE = "-b 2 --cache-seqlens 300,77"

FORWARD = (
    CheckCase("causal", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --splits 1", FWD),
    CheckCase("causal d64", "-b 2 -H 4 -s 333 -d 64 --dtype bf16 --causal --lse --splits 1", FWD),
    CheckCase("causal, GQA, LSE, bshd", "-b 2 -H 8 --kv-heads 2 -s 256 --seqlen-k 450 -d 128 --dtype bf16 --causal --lse --layout bshd --splits 1", FWD),
    CheckCase("more queries than keys", "-b 1 -H 4 -s 450 --seqlen-k 130 -d 128 --dtype bf16 --causal --lse --splits 1", FWD),
    CheckCase("one key", "-b 2 -H 4 -s 70 --seqlen-k 1 -d 128 --dtype bf16 --splits 1", FWD),
    CheckCase("MQA, packed heads", "-b 2 -H 4 --kv-heads 1 -s 5 --seqlen-k 300 -d 128 --dtype bf16 --splits 1", FWD),
    CheckCase("GQA, packed heads, causal", "-H 8 --kv-heads 2 -s 33 --seqlen-k 300 -d 64 --dtype bf16 --causal --lse --splits 1", FWD),
    CheckCase("window", "-b 1 -H 4 -s 500 -d 128 --dtype fp16 --mask window:100,20 --splits 1", FWD),
    CheckCase("window, left alone", "-b 1 -H 4 -s 500 -d 64 --dtype bf16 --mask window:64,-1 --lse --splits 1", FWD),
    CheckCase("window, no future", "-b 1 -H 2 -s 300 --seqlen-k 500 -d 256 --dtype bf16 --mask window:128,0 --splits 1", FWD),
    CheckCase("softcap, causal", "-b 1 -H 4 -s 200 --seqlen-k 333 -d 128 --dtype bf16 --softcap 20 --causal --lse --splits 1", FWD),
    CheckCase("softcap, causal, d96", "-b 1 -H 4 -s 500 -d 96 --dtype fp16 --softcap 20 --causal --splits 1", FWD),
    CheckCase("head dims 192 and 128", "-b 1 -H 2 -s 200 --seqlen-k 333 -d 192 --hdim-v 128 --dtype bf16 --causal --lse --splits 1", FWD),
    CheckCase("head dims 64 and 256", "-b 1 -H 2 -s 130 --seqlen-k 300 -d 64 --hdim-v 256 --dtype fp16 --lse --splits 1", FWD),
    CheckCase("head dims 64 and 512", "-b 1 -H 2 -s 130 --seqlen-k 200 -d 64 --hdim-v 512 --dtype bf16 --causal --splits 1", FWD),
    CheckCase("scale", "-b 1 -H 4 -s 300 -d 128 --dtype bf16 --scale 0.25 --splits 1", FWD),
    CheckCase("fp8, scales of heads", f"-b 1 -H 4 --kv-heads 2 -s 512 -d 128 --qscale head {FP8}", FWD),
    CheckCase("fp8, causal, uneven", f"-b 2 -H 2 -s 200 --seqlen-k 333 -d 128 --qscale head --causal --lse {FP8}", FWD),
    CheckCase("fp8 d64, no scales", f"-b 1 -H 2 -s 200 --seqlen-k 300 -d 64 --causal {FP8}", FWD),
    CheckCase("fp8 d256", f"-b 1 -H 1 -s 200 --seqlen-k 333 -d 256 --qscale head --causal --lse {FP8}", FWD),
    CheckCase("packed, causal, GQA", f"{_RAGGED} -H 8 --kv-heads 2 -d 128 --dtype bf16 --causal --splits 1", PREPARED),
    CheckCase("packed, empty sequences", "--seqlens-q 70,0,130 --seqlens-k 0,300,130 -H 2 -d 128 --dtype bf16 --causal --lse --splits 1", PREPARED),
    CheckCase("packed d64, bshd", f"{_RAGGED} -H 2 -d 64 --dtype fp16 --layout bshd --splits 1", PREPARED),
    CheckCase("packed, window", f"{_RAGGED} -H 2 -d 128 --dtype bf16 --mask window:60,9 --splits 1", PREPARED),
    CheckCase("packed, softcap", f"{_RAGGED} -H 2 -d 96 --dtype bf16 --causal --softcap 20 --splits 1", PREPARED),
    CheckCase("packed, fp8", f"{_RAGGED} -H 2 -d 128 --qscale head --causal {FP8}", PREPARED),
    CheckCase("split, causal", "-b 1 -H 4 -s 70 --seqlen-k 2000 -d 128 --dtype bf16 --causal --lse --splits 4", SPLITKV),
    CheckCase("split, GQA", "-b 2 -H 8 --kv-heads 2 -s 3 --seqlen-k 1500 -d 64 --dtype fp16 --splits 5", SPLITKV),
    CheckCase("split d256", "-b 1 -H 2 -s 5 --seqlen-k 900 -d 256 --dtype fp16 --lse --splits 4", SPLITKV),
    CheckCase("packed, split", f"{_RAGGED} -H 4 --kv-heads 2 -d 128 --dtype bf16 --lse --splits 3", SPLIT_PREPARED),
)  # fmt: skip

CACHED = (
    CheckCase("linear cache", f"{_CACHE} -H 4 -s 130 -d 128 --dtype bf16 --causal --kv-cache linear --lse --splits 1", PREPARED),
    CheckCase("left padding", f"{_CACHE} -H 4 -s 130 -d 128 --dtype bf16 --causal --kv-cache linear --cache-leftpad 5,40 --splits 1", PREPARED),
    CheckCase("rows of a cache", f"{_CACHE} -H 4 -s 130 -d 128 --dtype bf16 --causal --kv-cache linear --cache-batch-idx 2,0 --splits 1", PREPARED),
    CheckCase("empty cache", "-b 2 -H 4 -s 130 -d 128 --dtype bf16 --causal --kv-cache linear --cache-seqlens 0,77 --lse --splits 1", PREPARED),
    CheckCase("decode, split", "-b 3 -H 8 --kv-heads 2 -s 1 --kv-cache linear --cache-seqlens 3000,17,1025 -d 128 --dtype bf16 --lse --splits 8", SPLIT_PREPARED),
    CheckCase("pages of 128, by TMA", f"{_CACHE} -H 4 -s 130 -d 128 --dtype bf16 --causal --kv-cache paged:128 --splits 1", PREPARED),
    CheckCase("pages of 256, by TMA", f"{_CACHE} -H 4 -s 260 -d 64 --dtype bf16 --causal --kv-cache paged:256 --lse --splits 1", PREPARED),
    CheckCase("pages of 64", f"{_CACHE} -H 4 -s 20 -d 128 --dtype bf16 --causal --kv-cache paged:64 --splits 1", PREPARED),
    CheckCase("pages of 16", f"{_CACHE} -H 4 --kv-heads 2 -s 3 -d 64 --dtype fp16 --causal --kv-cache paged:16 --lse --splits 1", PREPARED),
    CheckCase("pages of 1", "-b 2 -H 4 --kv-heads 2 -s 3 -d 64 --dtype fp16 --causal --kv-cache paged:1 --cache-seqlens 70,9 --splits 1", PREPARED),
    CheckCase("pages of 64, split", "-b 2 -H 8 --kv-heads 2 -s 1 -d 128 --dtype bf16 --kv-cache paged:64 --cache-seqlens 17,2000 --lse --splits 4", SPLIT_PREPARED),
    CheckCase("append", f"{_CACHE} -H 4 -s 9 -d 128 --dtype bf16 --causal --kv-cache linear --append 9 --splits 1", PREPARED),
    CheckCase("append, rotary", f"{_CACHE} -H 4 -s 9 -d 128 --dtype bf16 --causal --kv-cache linear --append 9 --rotary 64 --splits 1", PREPARED),
    CheckCase("append, rotary interleaved, left padding", "-b 2 -H 2 -s 9 -d 128 --dtype bf16 --causal --kv-cache linear --cache-seqlens 0,119 --cache-leftpad 3,70 --append 9 --rotary 64:interleaved --splits 1", PREPARED),
    CheckCase("append more than a tile", "-b 2 -H 2 -s 3 -d 128 --dtype bf16 --causal --kv-cache linear --cache-seqlens 130,250 --append 140 --splits 1", PREPARED),
    CheckCase("append, pages", f"{_CACHE} -H 4 -s 9 -d 128 --dtype bf16 --causal --kv-cache paged:64 --append 9 --splits 1", PREPARED),
    CheckCase("append, split", f"{_CACHE} -H 4 --kv-heads 2 -s 1 -d 64 --dtype fp16 --kv-cache linear --append 1 --rotary 32:interleaved --splits 2", SPLIT_PREPARED),
)  # fmt: skip

BACKWARD = (
    CheckCase("backward, causal", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, causal d64", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, GQA, bshd", "-b 2 -H 6 --kv-heads 2 -s 200 --seqlen-k 333 -d 128 --dtype bf16 --causal --layout bshd --direction bwd", GROUPED),
    CheckCase("backward, more queries than keys", "-b 1 -H 4 -s 400 --seqlen-k 130 -d 128 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, window, deterministic", "-b 1 -H 2 -s 600 -d 128 --dtype fp16 --mask window:70,30 --deterministic --direction bwd", BWD),
    CheckCase("backward, softcap, deterministic", "-b 1 -H 2 -s 200 --seqlen-k 300 -d 64 --dtype bf16 --causal --softcap 15 --deterministic --direction bwd", BWD),
    CheckCase("backward, another head dim of V", "-b 1 -H 2 -s 200 --seqlen-k 300 -d 192 --hdim-v 128 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, packed", f"{_RAGGED} -H 2 -d 128 --dtype fp16 --mask window:70,30 --direction bwd", BWD),
    CheckCase("backward, packed, empty sequence, deterministic", "--seqlens-q 70,1,130,0 --seqlens-k 300,30,130,20 -H 4 --kv-heads 2 -d 128 --dtype bf16 --causal --deterministic --direction bwd", GROUPED),
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
    "fp8, causal, uneven",
    "packed, empty sequences",
    "pages of 64, split",
    "append, rotary",
    "backward, packed, empty sequence, deterministic",
)
"""Cases that run under compute-sanitizer: TMA with and without lengths, pages read by threads, and the appended keys."""

TOKENS, WIDTH = 16384, 2048
"""Tokens per call and heads * hdim, as in the points of FlashAttention-2, whose kernels are among the rivals."""


def _points() -> tuple[Point, ...]:
    """Decoding, then forward and backward passes: the largest come first."""
    out = []
    for batch, keys in ((4, 16384), (64, 4096)):
        flags = f"-b {batch} -H 32 --kv-heads 8 -s 1 --seqlen-k {keys} -d 128 --dtype bf16 --layout bshd --lse"
        out.append(Point("decode", f"decode b{batch} k{keys}", flags, False))
    for kind, seqlen, hdim in (
        *product(("forward",), (8192,), (128, 64, 256)),
        *product(("backward",), (8192,), (128, 64)),
        *product(("forward",), (2048,), (128,)),
    ):
        for causal in (False, True):
            flags = f"-b {TOKENS // seqlen} -H {WIDTH // hdim} -s {seqlen} -d {hdim} --dtype bf16 --layout bshd"
            flags += " --causal" if causal else ""
            flags += " --direction bwd" if kind == "backward" else " --lse --splits 1"
            out.append(Point(kind, f"{kind} d{hdim} s{seqlen}{' causal' if causal else ''}", flags, causal))
    return tuple(out)


POINTS = _points()


def drawn(base: Problem, rng: Random) -> list[str]:
    """The flags of a random problem of the base's kind."""
    hdim = random_flags.hdim(base, rng, BUCKETS)
    dtypes = dict.fromkeys((base.dtype.value, base.dtype_out.value))
    out = [*random_flags.heads(rng, (1, 1, 2, 3, 4, 8)), "-d", str(hdim), "--dtype", ":".join(dtypes)]
    out += ["--hdim-v", str(base.hdim_v)] if base.hdim_v != base.hdim else []
    out += [
        *random_flags.layout(rng),
        *_lengths(base, rng),
        *random_flags.mask(base, rng),
        *random_flags.scale(rng, 0.2),
    ]
    out += ["--qscale", base.qscale.value] if base.qscale is not QScale.NONE else []
    if base.softcap:
        out += ["--softcap", rng.choice(("1", "7.5", "30", "50"))]
    if base.direction.backward:
        ordered = base.deterministic or rng.random() < 0.1
        return [*out, "--direction", base.direction.value, *(["--deterministic"] if ordered else [])]
    return [*out, "--splits", str(1 if base.splits == 1 else rng.randint(2, 24)), *(["--lse"] if base.lse else [])]


def _lengths(base: Problem, rng: Random) -> list[str]:
    if base.kv_cache.kind is CacheKind.NONE:
        return random_flags.lengths(base, rng, 512)
    batch, new = rng.choice((1, 1, 2, 3)), rng.choice((1, 9, 40, 140)) if base.append else 0
    held = [0 if rng.random() < 0.15 else size(rng, 1500) for _ in range(batch)]
    paged = base.kv_cache.kind is CacheKind.PAGED
    rows = min(new, 40) or rng.choice((1, 1, 2, 5, 33, 64, 130))
    out = ["-b", str(batch), "-s", str(rows), "--cache-seqlens", listed(held)]
    out += ["--kv-cache", f"paged:{rng.choice((1, 16, 64, 128, 176, 256))}" if paged else "linear"]
    out += [] if paged else random_flags.leftpad(rng, batch, (0, 1, 5, 64, 200))
    if new:
        out += ["--append", str(new)]
    if base.rotary.dim:
        dims = [d for d in (16, 32, 64, 96, 128) if d <= base.hdim]
        out += ["--rotary", f"{rng.choice(dims)}:{rng.choice(('half', 'interleaved'))}"]
    return out
