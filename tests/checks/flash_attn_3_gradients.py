"""The backward passes of ``flash_attn_3_problems.py``: the flags of each feature."""

from __future__ import annotations

_Q, _G = "-H 2 --kv-heads 2", "-H 4 --kv-heads 2"
_RAGGED = "--seqlens-q 70,1,130,0 --seqlens-k 300,30,130,20 -H 4 --kv-heads 2"
_BACKWARD = {
    "backward, causal": (
        f"{_G} -s 256 -d 128 --dtype bf16 --causal",
        "-b 2 -H 4 --kv-heads 1 -s 200 --seqlen-k 333 -d 120 --dtype bf16 --causal --layout bshd",
        f"{_G} -s 130 --seqlen-k 70 -d 128 --dtype bf16 --causal",
        f"{_Q} -s 200 --seqlen-k 300 -d 64 --dtype bf16 --causal --softcap 15 --deterministic",
        f"{_Q} -s 200 --seqlen-k 300 -d 192 --dtype bf16 --causal",
        "-H 1 -s 200 --seqlen-k 300 -d 192 --hdim-v 128 --dtype bf16 --causal",
        f"{_Q} -s 200 --seqlen-k 300 -d 128 --dtype bf16 --causal",
        f"{_G} -s 300 -d 64 --dtype bf16 --causal",
    ),
    "backward, no mask": (
        f"{_Q} -b 2 -s 200 --seqlen-k 300 -d 64 --dtype bf16",
        f"{_Q} -s 70 --seqlen-k 300 -d 40 --hdim-v 64 --dtype bf16",
        f"{_Q} -s 256 --seqlen-k 300 -d 128 --dtype bf16",
        "-H 2 --kv-heads 1 -s 200 --seqlen-k 300 -d 256 --dtype fp16",
    ),
    "backward, window": (f"{_Q} -s 600 -d 128 --dtype fp16 --mask window:70,30 --deterministic",),
    "backward, packed sequences": (
        f"{_RAGGED} -d 128 --dtype bf16 --causal --deterministic",
        "--seqlens-q 70,1,130 --seqlens-k 500,300,130 -H 2 -d 128 --dtype fp16 --mask window:70,30",
        f"{_RAGGED} -d 96 --dtype fp16 --mask window:70,30 --softcap 20 --deterministic",
        "--seqlens-q 70,1,130 --seqlens-k 200,30,130 -H 1 -d 256 --dtype bf16 --causal",
    ),
}
"""Grouped heads or not, rows without keys, V of another head dim, and sums in a fixed order."""
GRADIENTS = {name: tuple(f"{text} --direction bwd" for text in flags) for name, flags in _BACKWARD.items()}
BOTH_PASSES = (f"{_G} -s 256 -d 128 --dtype bf16 --causal --direction fwd+bwd",)
