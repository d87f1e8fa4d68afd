"""The cases of memory-efficient attention: every kernel's range of head dims and every feature; its timed and its random
problems."""

from __future__ import annotations

from random import Random

from check_case import FWD, CheckCase, of_head_dims

from fmha_cli.domain.features import Bias, CacheKind
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.problem import Problem
from nvidia_check import random_flags
from nvidia_check.random_flags import listed, size
from nvidia_check.speed_points import Point

BWD = ("bwd_dq_dk_dv",)
DTYPES = ("bf16", "fp16", "fp32")
FORWARD_DIMS, BACKWARD_DIMS = (
    tuple((end, dtype, inside, dtype) for dtype in DTYPES for end, inside in pairs)
    for pairs in (((64, 40), (128, 104), (512, 136)), ((32, 24), (64, 40), (128, 104), (192, 136)))
)

FORWARD = (
    CheckCase("causal", "-b 2 -H 4 -s 333 -d 64 --dtype bf16 --causal --lse", FWD),
    CheckCase("causal, more keys", "-b 2 -H 4 -s 200 --seqlen-k 450 -d 128 --dtype fp16 --causal --layout bshd", FWD),
    CheckCase("causal, top left, more rows", "-b 1 -H 4 -s 450 --seqlen-k 130 -d 64 --dtype bf16 --mask causal-tl --lse", FWD),
    CheckCase("window", "-b 1 -H 4 -s 500 -d 64 --dtype bf16 --mask window:100,0 --lse", FWD),
    CheckCase("window, more keys", "-b 1 -H 4 -s 300 --seqlen-k 500 -d 128 --dtype fp32 --mask window:64,0", FWD),
    CheckCase("window, top left, rows without keys", "-b 1 -H 4 -s 500 --seqlen-k 200 -d 64 --dtype fp16 --mask window-tl:50,0 --lse", FWD),
    CheckCase("bias, one plane", "-b 2 -H 4 -s 200 --seqlen-k 256 -d 64 --dtype bf16 --bias elementwise:11ss", FWD),
    CheckCase("bias of heads, odd keys", "-b 2 -H 4 -s 200 --seqlen-k 333 -d 64 --dtype fp16 --bias elementwise:1hss", FWD),
    CheckCase("bias of all, causal, fp32", "-b 2 -H 4 -s 200 -d 128 --dtype fp32 --bias elementwise:bhss --causal --lse", FWD),
    CheckCase("dropout", "-b 2 -H 4 -s 300 -d 64 --dtype fp16 --dropout 0.17 --seed 7 --offset 64", FWD),
    CheckCase("dropout, causal, d256", "-b 2 -H 4 -s 200 -d 256 --dtype bf16 --dropout 0.5 --seed 77777777777 --mask causal-tl", FWD),
    CheckCase("dropout, bias, fp32", "-b 2 -H 4 -s 130 -d 64 --dtype fp32 --dropout 0.3 --seed 3 --bias elementwise:bhss --lse", FWD),
    CheckCase("packed", "--seqlens-q 300,1,150 -H 4 -d 64 --dtype bf16 --lse", FWD),
    CheckCase("packed, causal, bshd", "--seqlens-q 100,17,70 --seqlens-k 300,40,70 -H 4 -d 128 --dtype fp16 --causal --layout bshd", FWD),
    CheckCase("packed, empty sequences", "--seqlens-q 100,0,70 --seqlens-k 90,40,0 -H 4 -d 64 --dtype bf16 --lse", FWD),
    CheckCase("packed, dropout", "--seqlens-q 100,33,70 --seqlens-k 90,40,128 -H 3 -d 64 --dtype fp16 --dropout 0.2 --seed 5", FWD),
    CheckCase("padded keys", "-b 3 -H 4 -s 20 --kv-cache linear --cache-seqlens 300,27,255 -d 64 --dtype bf16 --causal --lse", FWD),
    CheckCase("padded keys, left padding", "-b 3 -H 4 -s 4 --kv-cache linear --cache-seqlens 300,17,255 --cache-leftpad 3,0,70 -d 128 --dtype fp16", FWD),
    CheckCase("MQA", "-b 2 -H 6 --kv-heads 1 -s 130 -d 64 --dtype bf16", FWD),
    CheckCase("MQA, one row", "-b 2 -H 6 --kv-heads 1 -s 1 --seqlen-k 500 -d 128 --dtype bf16", FWD),
    CheckCase("GQA, bshd", "-b 2 -H 8 --kv-heads 2 -s 130 -d 128 --dtype fp16 --causal --lse --layout bshd", FWD),
    CheckCase("value head dim", "-b 2 -H 4 -s 130 -d 64 --hdim-v 128 --dtype bf16 --lse", FWD),
    CheckCase("padded head dims", "-b 2 -H 4 -s 130 -d 33 --hdim-v 20 --dtype fp16 --lse", FWD),
    CheckCase("padded head dims, fp32", "-b 2 -H 4 -s 130 -d 65 --dtype fp32", FWD),
    CheckCase("head dim 1000", "-b 1 -H 2 -s 130 -d 1000 --dtype bf16 --lse", FWD),
    CheckCase("scale", "-b 1 -H 4 -s 300 -d 64 --dtype bf16 --scale 0.25", FWD),
    CheckCase("one key", "-b 2 -H 4 -s 70 --seqlen-k 1 -d 64 --dtype fp32 --lse", FWD),
)  # fmt: skip

BACKWARD = (
    CheckCase("backward, causal", "-b 2 -H 4 -s 256 -d 64 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, causal, top left, more rows", "-b 1 -H 4 -s 400 --seqlen-k 130 -d 64 --dtype fp16 --mask causal-tl --direction bwd", BWD),
    CheckCase("backward, causal, more keys, fp32", "-b 1 -H 4 -s 200 --seqlen-k 333 -d 128 --dtype fp32 --causal --direction bwd", BWD),
    CheckCase("backward, window", "-b 1 -H 4 -s 400 -d 64 --dtype bf16 --mask window:100,0 --direction bwd", BWD),
    CheckCase("backward, bias and its gradient", "-b 2 -H 4 -s 200 --seqlen-k 256 -d 64 --dtype bf16 --bias elementwise:bhss --dbias --direction bwd", BWD),
    CheckCase("backward, broadcast bias and its gradient", "-b 2 -H 4 -s 200 --seqlen-k 333 -d 64 --dtype fp16 --bias elementwise:11ss --dbias --causal --direction bwd", BWD),
    CheckCase("backward, bias of heads and its gradient, fp32", "-b 2 -H 4 -s 100 --seqlen-k 130 -d 64 --dtype fp32 --bias elementwise:1hss --dbias --direction bwd", BWD),
    CheckCase("backward, bias without gradient", "-b 2 -H 4 -s 100 --seqlen-k 130 -d 128 --dtype fp16 --bias elementwise:1hss --direction bwd", BWD),
    CheckCase("backward, dropout", "-b 1 -H 4 -s 400 -d 64 --dtype fp16 --dropout 0.17 --seed 7 --offset 64 --direction bwd", BWD),
    CheckCase("backward, dropout d32", "-b 1 -H 4 -s 200 -d 32 --dtype bf16 --dropout 0.4 --seed 9 --direction bwd", BWD),
    CheckCase("backward, dropout d128", "-b 1 -H 4 -s 200 -d 128 --dtype bf16 --dropout 0.4 --seed 9 --causal --direction bwd", BWD),
    CheckCase("backward, dropout d256", "-b 1 -H 2 -s 200 -d 256 --dtype fp16 --dropout 0.1 --seed 1 --direction bwd", BWD),
    CheckCase("backward, dropout, fp32", "-b 1 -H 4 -s 200 -d 64 --dtype fp32 --dropout 0.17 --seed 2 --direction bwd", BWD),
    CheckCase("backward, packed", "--seqlens-q 100,17,70 --seqlens-k 300,40,70 -H 4 -d 64 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, packed, empty sequences", "--seqlens-q 100,0,70 --seqlens-k 90,40,0 -H 4 -d 128 --dtype fp16 --direction bwd", BWD),
    CheckCase("backward, packed, fp32, dropout", "--seqlens-q 100,33,70 --seqlens-k 90,40,128 -H 3 -d 64 --dtype fp32 --dropout 0.2 --seed 5 --direction bwd", BWD),
    CheckCase("backward, MQA", "-b 1 -H 6 --kv-heads 1 -s 200 -d 64 --dtype bf16 --direction bwd", BWD),
    CheckCase("backward, GQA, bshd", "-b 1 -H 6 --kv-heads 2 -s 200 --seqlen-k 333 -d 128 --dtype bf16 --causal --layout bshd --direction bwd", BWD),
    CheckCase("backward, value head dim", "-b 1 -H 4 -s 130 -d 64 --hdim-v 40 --dtype fp16 --direction bwd", BWD),
    CheckCase("backward, padded head dims", "-b 1 -H 4 -s 130 -d 33 --hdim-v 60 --dtype bf16 --direction bwd", BWD),
    CheckCase("backward, deterministic", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --deterministic --direction bwd", BWD),
)  # fmt: skip

CASES: tuple[CheckCase, ...] = (
    *of_head_dims(FORWARD_DIMS, FWD, ""),
    *of_head_dims(BACKWARD_DIMS, BWD, "--direction bwd", "backward "),
    *FORWARD,
    *BACKWARD,
)

SANITIZED = (
    "bias of heads, odd keys",
    "packed, empty sequences",
    "MQA, one row",
    "backward, broadcast bias and its gradient",
    "backward, packed, empty sequences",
    "backward, padded head dims",
)


def _points() -> tuple[Point, ...]:
    out = []
    for dtype, hdim, seqlen in (
        ("bf16", 64, 4096),
        ("bf16", 128, 4096),
        ("fp32", 64, 2048),
        ("fp32", 128, 2048),
        ("fp16", 256, 2048),
    ):
        for kind in ("forward", "backward"):
            flags = f"-b 4 -H {2048 // hdim} -s {seqlen} -d {hdim} --dtype {dtype} --layout bshd --mask causal-tl"
            flags += " --direction bwd" if kind == "backward" else ""
            out.append(Point(kind, f"{kind} {dtype} d{hdim} s{seqlen} causal", flags, True))
    for kind, more in (("forward", ""), ("backward", " --direction bwd --dbias")):
        flags = f"-b 4 -H 16 -s 2048 -d 64 --dtype bf16 --layout bshd --bias elementwise:1hss{more}"
        out.append(Point(kind, f"{kind} bf16 d64 s2048 bias", flags, False))
    return tuple(out)


POINTS = _points()


def drawn(base: Problem, rng: Random) -> list[str]:
    """The flags of a random problem of the base's kind."""
    hdim, hdim_v = (
        min(d, rng.randint(max(1, d // 2 + 1), d)) if rng.random() < 0.4 else d for d in (base.hdim, base.hdim_v)
    )
    out = [*random_flags.heads(rng, (1, 1, 2, 4)), "-d", str(hdim), "--hdim-v", str(hdim_v)]
    out += ["--dtype", base.dtype.value, *random_flags.layout(rng), *_lengths(base, rng)]
    left = rng.choice((0, 1, 31, 64, 100, rng.randint(0, 400)))
    if base.mask.kind is not MaskKind.NONE:
        out += ["--mask", rng.choice(("causal", "causal-tl", f"window:{left},0", f"window-tl:{left},0"))]
    if base.bias is not Bias.NONE:
        out += ["--bias", rng.choice(("elementwise:11ss", "elementwise:1hss", "elementwise:bhss"))]
        out += ["--dbias"] if base.direction.backward and rng.random() < 0.6 else []
    if base.dropout:
        out += random_flags.dropout(rng)
    out += random_flags.scale(rng, 0.2)
    if base.direction.backward:
        return [*out, "--direction", "bwd", *(["--deterministic"] if rng.random() < 0.3 else [])]
    return [*out, *(["--lse"] if base.lse else [])]


def _lengths(base: Problem, rng: Random) -> list[str]:
    if base.kv_cache.kind is CacheKind.NONE:
        return random_flags.lengths(base, rng, 400)
    batch = rng.choice((1, 1, 2, 3))
    held = listed([size(rng, 500) for _ in range(batch)])
    out = ["-b", str(batch), "-s", str(rng.choice((1, 2, 5, 33, 64))), "--kv-cache", "linear", "--cache-seqlens", held]
    return [*out, *random_flags.leftpad(rng, batch, (0, 1, 5, 64))]
