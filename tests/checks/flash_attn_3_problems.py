"""The problems of ``flash_attn_3_check.py``: for each feature and head dim one that takes a kernel of its own, with ragged lengths."""

from __future__ import annotations

from dataclasses import dataclass

from tests.checks.flash_attn_3_gradients import BOTH_PASSES, GRADIENTS

_Q, _G = "-H 2 --kv-heads 2", "-H 4 --kv-heads 2"
_APPEND = f"-b 2 {_Q} -s 9 -d 128 --dtype bf16 --causal --kv-cache linear --splits 1"
_LATENT = "-d 576 --mla-rope 64 --dtype bf16"
_TABLES = "--rotary-cos filled --rotary-sin filled"


@dataclass(frozen=True)
class Fa3Problem:
    """A problem, and what its kernel is for."""

    feature: str
    flags: str

    @property
    def name(self) -> str:
        return f"{self.feature}: {self.flags}"


def _all(feature: str, *flags: str) -> tuple[Fa3Problem, ...]:
    return tuple(Fa3Problem(feature, text) for text in flags)


_MORE_LENGTHS = "-s 200 --seqlen-k 333"
PACKED = "--seqlens-q 70,1,130 --seqlens-k 500,300,130"
CACHE = "--cache-seqlens 300,77 -b 2"
PROBLEMS = (
    *_all(
        "dense, causal",
        f"{_G} -s 256 -d 128 --dtype bf16 --causal",
        f"{_Q} -s 150 -d 64 --dtype bf16 --causal --lse",
        f"{_Q} -s 200 --seqlen-k 333 -d 96 --dtype bf16 --causal",
        "-H 1 -s 200 --seqlen-k 333 -d 192 --hdim-v 128 --dtype bf16 --causal --lse",
        "-H 1 -s 200 --seqlen-k 333 -d 256 --dtype bf16 --causal",
        "-H 1 -s 130 --seqlen-k 200 -d 64 --hdim-v 512 --dtype bf16 --causal",
        f"{_Q} -s 200 --seqlen-k 333 -d 128 --dtype fp16 --causal --lse",
        f"{_Q} -s 333 --seqlen-k 200 -d 64 --dtype fp16 --causal",
    ),
    *_all(
        "dense, no mask",
        f"{_Q} -s 200 --seqlen-k 333 -d 128 --dtype bf16 --lse",
        f"{_Q} -s 200 --seqlen-k 333 -d 64 --dtype bf16",
        f"{_Q} -s 200 --seqlen-k 333 -d 96 --dtype fp16",
        f"{_Q} -s 130 --seqlen-k 333 -d 120 --dtype fp16 --layout bshd",
        "-H 1 -s 130 --seqlen-k 300 -d 64 --hdim-v 256 --dtype fp16 --lse",
    ),
    *_all(
        "dense, cluster of two",
        f"{_Q} -s 256 --seqlen-k 333 -d 128 --dtype bf16 --lse",
        "-b 2 -H 1 -s 200 --seqlen-k 333 -d 128 --dtype fp16 --layout bshd",
        "-H 1 -s 256 --seqlen-k 200 -d 256 --dtype fp16",
    ),
    *_all(
        "dense, rows without keys",
        f"{_Q} -s 333 --seqlen-k 200 -d 128 --dtype bf16 --causal --lse",
    ),
    *_all(
        "dense, window",
        f"{_Q} -s 300 -d 128 --dtype fp16 --mask window:100,20",
        f"{_Q} -s 200 --seqlen-k 300 -d 64 --dtype bf16 --mask window:70,30 --lse",
        "-H 1 -s 200 --seqlen-k 300 -d 256 --dtype bf16 --mask window:70,0",
    ),
    *_all(
        "dense, softcap",
        f"{_Q} -s 200 --seqlen-k 333 -d 96 --dtype fp16 --causal --softcap 20",
        f"{_Q} -s 200 --seqlen-k 333 -d 128 --dtype bf16 --causal --softcap 20 --lse",
    ),
    *_all(
        "fp8",
        f"{_G} -s 256 -d 128 --dtype fp8_e4m3:bf16 --qscale head",
        "-H 1 -s 200 --seqlen-k 333 -d 128 --dtype fp8_e4m3:bf16 --qscale head --causal --splits 1 --lse",
        "-H 1 -s 200 --seqlen-k 300 -d 64 --dtype fp8_e4m3:bf16 --causal --splits 1",
    ),
    *_all(
        "packed query heads",
        "-H 4 --kv-heads 1 -s 5 --seqlen-k 300 -d 128 --dtype bf16 --splits 1",
        "-H 8 --kv-heads 2 -s 33 --seqlen-k 300 -d 64 --dtype bf16 --causal --splits 1 --lse",
    ),
    *_all(
        "splits",
        f"{_Q} -s 600 -d 128 --dtype bf16 --causal --splits 3",
        f"{_Q} -s 601 -d 128 --dtype bf16 --causal --splits 3 --lse",
        "-H 8 --kv-heads 2 -s 3 --seqlen-k 1500 -d 64 --dtype fp16 --splits 5",
    ),
    *_all(
        "packed sequences",
        f"{PACKED} -H 4 --kv-heads 2 -d 128 --dtype bf16 --causal",
        f"{PACKED} -H 2 -d 128 --dtype bf16 --causal --lse",
        "--seqlens-q 70,0,130 --seqlens-k 0,300,130 -H 2 -d 128 --dtype bf16 --causal --lse",
        f"{PACKED} -H 2 -d 64 --dtype fp16",
        f"{PACKED} -H 2 -d 128 --dtype bf16 --mask window:60,9",
        f"{PACKED} -H 2 -d 128 --dtype fp8_e4m3:bf16 --qscale head --causal",
        f"{PACKED} -H 2 -d 96 --dtype bf16 --causal --softcap 20",
        f"{PACKED} -H 1 -d 192 --hdim-v 128 --dtype bf16 --causal",
    ),
    *_all(
        "packed sequences, splits",
        f"{PACKED} -H 4 --kv-heads 2 -d 128 --dtype bf16 --splits 3 --lse",
        "--seqlens-q 5,3 --seqlens-k 0,700 -H 4 --kv-heads 2 -d 128 --dtype bf16 --splits 3 --lse",
    ),
    *_all(
        "linear cache",
        f"{_Q} -s 130 -d 128 --dtype bf16 --causal --kv-cache linear {CACHE}",
        f"{_Q} -s 130 -d 128 --dtype bf16 --causal --kv-cache linear {CACHE} --cache-leftpad 5,40",
        f"{_Q} -s 130 -d 128 --dtype bf16 --causal --kv-cache linear {CACHE} --cache-batch-idx 2,0",
        f"{_Q} -s 130 -d 128 --dtype bf16 --causal --kv-cache linear --cache-seqlens 0,77 -b 2 --lse",
        f"{_G} -s 1 -d 64 --dtype bf16 --kv-cache linear {CACHE} --splits 2 --lse",
    ),
    *_all(
        "pages read by TMA",
        f"{_Q} -s 130 -d 128 --dtype bf16 --causal --kv-cache paged:128 {CACHE}",
        f"{_Q} -s 260 -d 64 --dtype bf16 --causal --kv-cache paged:256 {CACHE} --lse",
    ),
    *_all(
        "pages read by cp.async",
        f"{_Q} -s 20 -d 128 --dtype bf16 --causal --kv-cache paged:64 {CACHE} --splits 1",
        f"{_G} -s 1 -d 128 --dtype bf16 --kv-cache paged:64 --cache-seqlens 2000",
        f"{_G} -s 1 -d 128 --dtype bf16 --kv-cache paged:64 --cache-seqlens 0,2000 -b 2 --splits 4 --lse",
        f"{_G} -s 3 -d 64 --dtype fp16 --causal --kv-cache paged:16 {CACHE} --splits 1 --lse",
        f"{_G} -s 3 -d 64 --dtype fp16 --causal --kv-cache paged:1 --cache-seqlens 70,9 -b 2 --splits 1",
    ),
    *_all(
        "appended keys",
        f"{_Q} -s 9 -d 128 --dtype bf16 --causal --kv-cache linear {CACHE} --append 9 --splits 1",
        f"{_Q} -s 9 -d 128 --dtype bf16 --causal --kv-cache linear {CACHE} --append 9 --rotary 64 --splits 1",
        f"{_APPEND} --cache-seqlens 0,119 --cache-leftpad 3,70 --append 9 --rotary 64",
        f"{_APPEND} --cache-seqlens 130,19 --cache-batch-idx 2,1 --append 9 --rotary 64:interleaved {_TABLES}",
        f"{_Q} -s 3 -d 128 --dtype bf16 --causal --kv-cache linear --cache-seqlens 130,250 -b 2 --append 140 --splits 1",
        f"{_G} -s 1 -d 64 --dtype fp16 --kv-cache linear {CACHE} --append 1 --rotary 32:interleaved --splits 2",
        f"{_Q} -s 9 -d 128 --dtype bf16 --causal --kv-cache paged:64 {CACHE} --append 9 --splits 1",
    ),
    *_all(
        "appended keys of fp8",
        f"{_Q} -s 9 -d 128 --dtype fp8_e4m3:bf16 --qscale head --causal --kv-cache linear {CACHE} --append 9 --splits 1 --lse",
        f"{_G} -s 1 -d 128 --dtype fp8_e4m3:bf16 --kv-cache paged:64 {CACHE} --append 1 --splits 2",
    ),
    *_all(
        "latent attention",
        f"-H 2 --kv-heads 1 -s 128 --seqlen-k 200 {_LATENT} --causal --lse --splits 1",
        "-H 2 --kv-heads 1 -s 128 --seqlen-k 333 -d 424 --mla-rope 40 --dtype bf16 --causal --layout bshd --splits 1",
        f"-H 16 --kv-heads 1 -s 5 --seqlen-k 300 {_LATENT} --splits 1",
        "-H 2 --kv-heads 1 -s 128 --seqlen-k 200 -d 320 --mla-rope 64 --dtype fp16 --causal --lse --splits 1",
        f"-H 4 --kv-heads 1 -s 100 --seqlen-k 300 {_LATENT} --mask window:60,9 --splits 1",
        f"-H 4 --kv-heads 1 -s 100 --seqlen-k 300 {_LATENT} --causal --softcap 20 --splits 1",
        f"-H 2 --kv-heads 1 -s 128 --seqlen-k 333 {_LATENT} --causal --splits 3",
        f"{PACKED} -H 4 --kv-heads 1 {_LATENT} --causal --lse --splits 1",
    ),
    *_all(
        "latent attention, caches",
        f"-H 4 --kv-heads 1 -s 130 {_LATENT} --causal --kv-cache linear {CACHE} --splits 1",
        f"-H 16 --kv-heads 1 -s 1 {_LATENT} --kv-cache linear --cache-seqlens 900,77 -b 2 --splits 3 --lse",
        f"-H 128 --kv-heads 1 -s 1 {_LATENT} --kv-cache paged:64 --cache-seqlens 900,77 -b 2 --splits 2 --lse",
        f"-H 16 --kv-heads 1 -s 1 {_LATENT} --kv-cache paged:16 --cache-seqlens 900,77 -b 2 --splits 3 --lse",
        f"-H 16 --kv-heads 1 -s 1 {_LATENT} --kv-cache linear {CACHE} --append 1 --splits 1 --lse",
        f"-H 16 --kv-heads 1 -s 3 {_LATENT} --causal --kv-cache paged:16 {CACHE} --append 3 --splits 1 --lse",
    ),
    *_all(
        "further head dims and types",
        f"-H 1 {_MORE_LENGTHS} -d 192 --dtype fp16 --causal --splits 1 --lse",
        f"-H 1 {_MORE_LENGTHS} -d 192 --hdim-v 128 --dtype fp16 --splits 1",
        f"-H 1 {_MORE_LENGTHS} -d 256 --dtype fp16 --causal --splits 1 --lse",
        f"-H 1 {_MORE_LENGTHS} -d 64 --hdim-v 256 --dtype bf16 --causal --splits 1 --lse",
        f"-H 2 {_MORE_LENGTHS} -d 96 --dtype bf16 --mask window:70,30 --splits 1",
        f"-H 2 {_MORE_LENGTHS} -d 64 --dtype fp16 --mask window:70,30 --softcap 20 --splits 1 --lse",
        f"-H 1 {_MORE_LENGTHS} -d 96 --dtype fp8_e4m3:bf16 --qscale head --splits 1",
        f"-H 1 {_MORE_LENGTHS} -d 192 --hdim-v 128 --dtype fp8_e4m3:bf16 --causal --splits 1",
        f"-H 1 {_MORE_LENGTHS} -d 256 --dtype fp8_e4m3:bf16 --qscale head --causal --splits 1 --lse",
        f"{_G} -s 1 --seqlen-k 2000 -d 128 --dtype fp8_e4m3:bf16 --qscale head --splits 3",
        "-H 8 --kv-heads 2 -s 33 --seqlen-k 300 -d 96 --dtype fp16 --causal --splits 1",
        "-H 8 --kv-heads 1 -s 20 --seqlen-k 300 -d 64 --hdim-v 512 --dtype bf16 --splits 1 --lse",
        "-H 1 -s 5 --seqlen-k 900 -d 256 --dtype fp16 --splits 4 --lse",
        f"{PACKED} -H 2 -d 64 --dtype bf16 --mask window:60,9 --softcap 20",
        f"{PACKED} -H 1 -d 256 --dtype fp16 --causal --lse",
        f"{PACKED} -H 1 -d 64 --hdim-v 512 --dtype bf16 --causal",
        f"{PACKED} -H 2 -d 64 --dtype fp8_e4m3:bf16 --causal --lse",
        f"{_G} -s 3 -d 96 --dtype bf16 --causal --kv-cache paged:64 {CACHE} --splits 1",
        f"{_G} -s 3 -d 192 --hdim-v 128 --dtype bf16 --causal --kv-cache paged:16 {CACHE} --splits 1",
        f"{_G} -s 1 -d 256 --dtype bf16 --kv-cache paged:32 --cache-seqlens 900 --splits 3 --lse",
        f"{_G} -s 5 -d 128 --dtype fp8_e4m3:bf16 --qscale head --causal --kv-cache paged:64 {CACHE} --splits 1",
        f"{_Q} -s 9 -d 96 --dtype fp16 --causal --kv-cache linear {CACHE} --append 9 --rotary 32 --splits 1",
        f"-H 1 -s 9 -d 256 --dtype bf16 --causal --kv-cache linear {CACHE} --append 9 --splits 1",
    ),
    *(problem for feature, flags in GRADIENTS.items() for problem in _all(feature, *flags)),
    *_all("both passes", *BOTH_PASSES),
)
"""Lengths that fill no tile, except where tiles must be even in number. Of each feature the first problems matter most."""
