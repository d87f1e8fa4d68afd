"""The cases of ``plugins/fmha-triton``: every kind of kernel. On sm_90a and sm_100a, plain forward problems go to the Gluon kernels.

With head dim 128, 16 bits and no mask, the kernel for Blackwell has clusters of two CTAs. Two cases name a number of CTAs.
"""

from __future__ import annotations

from random import Random

from check_case import FWD, SPLITKV, CheckCase

from fmha_cli.domain.problem import Problem
from nvidia_check import random_flags
from nvidia_check.speed_points import Point

BWD = ("bwd_dot_do_o", "bwd_dq_dk_dv")
CASES: tuple[CheckCase, ...] = (
    CheckCase("d64", "-b 2 -H 4 -s 512 -d 64 --dtype fp16", FWD),
    CheckCase("d64, causal, uneven", "-b 1 -H 3 -s 333 --seqlen-k 471 -d 64 --dtype bf16 --causal --lse", FWD),
    CheckCase("d128", "-b 2 -H 4 -s 512 -d 128 --dtype fp16 --lse", FWD),
    CheckCase("d128, uneven", "-b 1 -H 3 -s 700 --seqlen-k 300 -d 128 --dtype bf16", FWD),
    CheckCase("d128, causal, GQA", "-b 2 -H 4 --kv-heads 2 -s 300 --seqlen-k 333 -d 128 --dtype bf16 --causal --lse", FWD),
    CheckCase("many heads", "-b 5 -H 33 -s 256 -d 128 --dtype fp16", FWD),
    CheckCase("window", "-b 2 -H 4 -s 512 -d 64 --dtype fp16 --mask window:100,0", FWD),
    CheckCase("softcap, d96", "-b 2 -H 4 -s 333 --seqlen-k 471 -d 96 --dtype bf16 --softcap 30", FWD),
    CheckCase("ALiBi", "-b 2 -H 4 -s 512 -d 64 --dtype fp16 --alibi --causal", FWD),
    CheckCase("bias", "-b 2 -H 4 -s 333 -d 64 --dtype fp16 --bias elementwise", FWD),
    CheckCase("packed", "-H 4 --seqlens-q 200,77,512 --seqlens-k 200,99,512 -d 64 --dtype bf16 --causal", FWD),
    CheckCase("pages, split", "-b 4 -H 8 --kv-heads 2 -s 1 -d 128 --dtype bf16 --kv-cache paged:64 --cache-seqlens 1000 --splits 4", SPLITKV),
    CheckCase("fp8_e4m3", "-b 1 -H 4 -s 512 -d 128 --dtype fp8_e4m3 --qscale tensor", FWD),
    CheckCase("fp8_e5m2, causal", "-b 1 -H 4 -s 300 -d 64 --dtype fp8_e5m2 --qscale head --causal", FWD),
    CheckCase("d64, causal, two CTAs", "-b 1 -H 3 -s 700 --seqlen-k 471 -d 64 --dtype bf16 --causal --lse", FWD, "num_ctas=2"),
    CheckCase("fp8_e4m3, four CTAs", "-b 1 -H 2 -s 1100 --seqlen-k 300 -d 64 --dtype fp8_e4m3 --qscale head --lse", FWD, "num_ctas=4"),
    CheckCase("backward", "-b 2 -H 4 -s 512 -d 64 --dtype fp16 --direction bwd", BWD),
    CheckCase("backward, causal, GQA", "-b 1 -H 4 --kv-heads 2 -s 333 --seqlen-k 471 -d 128 --dtype bf16 --causal --direction bwd", BWD),
)  # fmt: skip
SANITIZED = ("d64", "d128", "pages, split", "backward")
POINTS = tuple(
    Point(
        kind,
        f"{kind} d{hdim} s{seqlen}{' causal' if causal else ''}",
        f"-b {16384 // seqlen} -H {2048 // hdim} -s {seqlen} -d {hdim} --dtype bf16 --layout bshd"
        f"{' --causal' if causal else ''}{' --direction bwd' if kind == 'backward' else ''}",
        causal,
    )
    for kind, lengths in (("forward", (8192, 2048)), ("backward", (4096,)))
    for seqlen in lengths
    for hdim in (128, 64)
    for causal in (False, True)
)


def drawn(base: Problem, rng: Random) -> list[str]:
    """The flags of a random forward problem with the base's head dim, type and mask."""
    out = [*random_flags.heads(rng, (1, 1, 2, 4)), "-d", str(base.hdim), "--dtype", base.dtype.value]
    out += ["-b", str(rng.choice((1, 1, 2, 3))), "-s", str(random_flags.size(rng, 1200))]
    out += ["--seqlen-k", str(random_flags.size(rng, 1200)), "--mask", rng.choice(("none", "causal"))]
    return [*out, *random_flags.layout(rng), *random_flags.scale(rng, 0.3), *(["--lse"] if base.lse else [])]
