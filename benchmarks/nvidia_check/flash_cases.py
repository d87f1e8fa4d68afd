"""FlashAttention's cases: every family and feature, forward and backward, at sizes that the oracle checks in full."""

from __future__ import annotations

from check_case import BWD, FWD, SPLITKV, Case

SPLIT_ALONE = ("fwd_splitkv",)


def _head_dims() -> tuple[Case, ...]:
    """Every bucket, once at its own head dim with even lengths and once below it with uneven lengths."""
    out = []
    for own, below, dtype, other in (
        (32, 24, "fp16", "bf16"),
        (64, 40, "bf16", "fp16"),
        (96, 80, "fp16", "bf16"),
        (128, 104, "bf16", "fp16"),
        (192, 160, "fp16", "bf16"),
        (256, 224, "bf16", "fp16"),
    ):
        even, uneven = f"-b 2 -H 4 -s 512 -d {own} --dtype {dtype}", f"-b 1 -H 4 -s 333 -d {below} --dtype {other}"
        out += [
            Case(f"d{own} {dtype}", f"{even} --splits 1", FWD),
            Case(f"d{below} {other}, uneven", f"{uneven} --seqlen-k 471 --splits 1", FWD),
            Case(f"backward d{own} {dtype}", f"{even} --direction bwd", BWD),
            Case(f"backward d{below} {other}, uneven", f"{uneven} --seqlen-k 471 --direction bwd", BWD),
        ]
    return tuple(out)


FORWARD = (
    Case("causal", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --splits 1", FWD),
    Case("causal d64", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --causal --splits 1", FWD),
    Case("causal, GQA, LSE, bshd", "-b 2 -H 8 --kv-heads 2 -s 200 --seqlen-k 450 -d 128 --dtype bf16 --causal --lse --layout bshd --splits 1", FWD),
    Case("more queries than keys", "-b 1 -H 4 -s 450 --seqlen-k 130 -d 128 --dtype bf16 --causal --lse --splits 1", FWD),
    Case("one key", "-b 2 -H 4 -s 70 --seqlen-k 1 -d 128 --dtype bf16 --splits 1", FWD),
    Case("MQA", "-b 2 -H 6 --kv-heads 1 -s 130 -d 128 --dtype bf16 --splits 1", FWD),
    Case("window", "-b 1 -H 4 -s 500 -d 128 --dtype bf16 --mask window:100,30 --splits 1", FWD),
    Case("window, left alone", "-b 1 -H 4 -s 500 -d 64 --dtype fp16 --mask window:64,-1 --splits 1", FWD),
    Case("window, no future", "-b 1 -H 4 -s 500 --seqlen-k 700 -d 128 --dtype bf16 --mask window:128,0 --lse --splits 1", FWD),
    Case("ALiBi", "-b 2 -H 4 -s 300 -d 64 --dtype fp16 --alibi --splits 1", FWD),
    Case("ALiBi, causal, LSE", "-b 2 -H 4 -s 300 -d 64 --dtype fp16 --alibi-slopes filled:bh --causal --lse --splits 1", FWD),
    Case("softcap", "-b 1 -H 4 -s 500 -d 128 --dtype bf16 --softcap 30 --splits 1", FWD),
    Case("softcap, causal", "-b 1 -H 4 -s 500 -d 128 --dtype bf16 --softcap 5 --causal --splits 1", FWD),
    Case("dropout", "-b 2 -H 4 -s 300 -d 128 --dtype fp16 --dropout 0.17 --seed 7 --offset 64 --splits 1", FWD),
    Case("dropout, causal", "-b 2 -H 4 -s 300 -d 64 --dtype fp16 --dropout 0.5 --seed 77777777777 --causal --splits 1", FWD),
    Case("packed", "--seqlens-q 300,1,150 -H 4 -d 128 --dtype bf16 --lse --splits 1", FWD),
    Case("packed, causal, GQA, bshd", "--seqlens-q 100,17,70 --seqlens-k 300,40,70 -H 8 --kv-heads 2 -d 128 --dtype bf16 --causal --layout bshd --splits 1", FWD),
    Case("packed, empty sequences", "--seqlens-q 100,0,70 --seqlens-k 90,40,0 -H 4 -d 128 --dtype bf16 --lse --splits 1", FWD),
    Case("scale", "-b 1 -H 4 -s 300 -d 128 --dtype bf16 --scale 0.25 --splits 1", FWD),
)  # fmt: skip

CACHED = (
    Case("decode, split", "-b 3 -H 8 --kv-heads 2 -s 1 --kv-cache linear --cache-seqlens 3000,17,1025 -d 128 --dtype bf16 --lse --splits 8", SPLITKV),
    Case("decode d64, split", "-b 2 -H 8 -s 1 --kv-cache linear --cache-seqlens 2000 -d 64 --dtype fp16 --splits 20", SPLITKV),
    Case("split, causal", "-b 1 -H 4 -s 70 --seqlen-k 2000 -d 128 --dtype bf16 --causal --lse --splits 4", SPLITKV),
    Case("split, ALiBi", "-b 1 -H 4 -s 3 --seqlen-k 2000 -d 64 --dtype fp16 --alibi --splits 3", SPLITKV),
    Case("split, window", "-b 1 -H 4 -s 9 --seqlen-k 2000 -d 128 --dtype bf16 --mask window:900,0 --splits 4", SPLITKV),
    Case("split, softcap", "-b 1 -H 4 -s 9 --seqlen-k 2000 -d 128 --dtype bf16 --softcap 20 --splits 4", SPLITKV),
    Case("split d256", "-b 1 -H 4 -s 9 --seqlen-k 2000 -d 256 --dtype bf16 --splits 40", SPLITKV),
    Case("left padding", "-b 3 -H 8 --kv-heads 2 -s 4 --kv-cache linear --cache-seqlens 500,17,1025 --cache-leftpad 3,0,70 -d 128 --dtype bf16 --causal --lse --splits 6", SPLITKV),
    Case("pages", "-b 3 -H 8 --kv-heads 2 -s 4 --kv-cache paged:256 --cache-seqlens 900,17,1025 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    Case("pages, split", "-b 3 -H 8 --kv-heads 2 -s 1 --kv-cache paged:512 --cache-seqlens 3000,17,1025 -d 128 --dtype bf16 --splits 4", SPLITKV),
    Case("append", "-b 3 -H 8 --kv-heads 2 -s 5 --kv-cache linear --cache-seqlens 500,0,1025 --append 5 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    Case("append, rotary", "-b 2 -H 4 -s 9 --kv-cache linear --cache-seqlens 500,77 --append 9 --rotary 64 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    Case("append, rotary interleaved", "-b 2 -H 4 -s 9 --kv-cache linear --cache-seqlens 500,77 --append 9 --rotary 128:interleaved -d 128 --dtype bf16 --causal --splits 3", SPLITKV),
    Case("append, pages", "-b 2 -H 4 -s 9 --kv-cache paged:256 --cache-seqlens 500,250 --append 9 --rotary 32 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
    Case("append, left padding, rotary", "-b 2 -H 4 -s 3 --kv-cache linear --cache-seqlens 500,77 --cache-leftpad 9,200 --append 3 --rotary 64 -d 128 --dtype bf16 --causal --splits 1", SPLIT_ALONE),
)  # fmt: skip

BACKWARD = (
    Case("backward, causal", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --direction bwd", BWD),
    Case("backward, causal d64", "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --causal --direction bwd", BWD),
    Case("backward, GQA, bshd", "-b 1 -H 6 --kv-heads 2 -s 200 --seqlen-k 333 -d 128 --dtype bf16 --causal --layout bshd --direction bwd", BWD),
    Case("backward, window", "-b 1 -H 4 -s 400 -d 128 --dtype bf16 --mask window:100,30 --direction bwd", BWD),
    Case("backward, ALiBi", "-b 1 -H 4 -s 400 -d 64 --dtype fp16 --alibi --causal --direction bwd", BWD),
    Case("backward, softcap", "-b 1 -H 4 -s 400 -d 128 --dtype bf16 --softcap 30 --direction bwd", BWD),
    Case("backward, dropout", "-b 1 -H 4 -s 400 -d 64 --dtype fp16 --dropout 0.17 --seed 7 --offset 64 --direction bwd", BWD),
    Case("backward, packed", "--seqlens-q 100,17,70 --seqlens-k 300,40,70 -H 8 --kv-heads 2 -d 128 --dtype bf16 --causal --direction bwd", BWD),
    Case("backward, deterministic", "-b 2 -H 4 -s 512 -d 128 --dtype bf16 --causal --deterministic --direction bwd", BWD),
    Case("backward, deterministic, uneven", "-b 1 -H 4 -s 200 --seqlen-k 333 -d 64 --dtype bf16 --deterministic --direction bwd", BWD),
)  # fmt: skip

CASES: tuple[Case, ...] = (*_head_dims(), *FORWARD, *CACHED, *BACKWARD)

SANITIZED = (
    "causal, GQA, LSE, bshd",
    "dropout",
    "packed, empty sequences",
    "decode, split",
    "append, pages",
    "backward, causal",
)
"""Cases that run under compute-sanitizer: one for each kind of main kernel."""
