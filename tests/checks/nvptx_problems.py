"""The problems of ``nvptx_emulator.py``: for each of FlashAttention-2's kinds two that fill its tiles and two ragged ones.

``nvptx_efficient_problems.py`` has the other backends' kinds. FlashAttention-2 has separate kernels for lengths that
fill every tile, so each sort of problem appears twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.checks.nvptx_efficient_problems import PtxKind, cudnn_kinds, efficient_kinds

EVEN = ("-s 256", "-s 256 --seqlen-k 384")
RAGGED = ("-s 200 --seqlen-k 333", "-s 261 --seqlen-k 300")
Lengths = tuple[tuple[str, str], tuple[str, str]]
"""At least two blocks of queries and of keys for every kernel: the largest tile has 128 of each."""


_FEATURES = {
    "plain": "",
    "causal": "--causal",
    "window": "--mask window:70,30",
    "ALiBi, causal": "--alibi --causal",
    "softcap": "--softcap 20",
    "dropout": "--dropout 0.2 --seed 7 --offset 3",
    "GQA, causal": "-H 4 --kv-heads 2 --causal --lse",
}
_PACKED = (
    ("--seqlens-q 256,256 --seqlens-k 256,256", "--seqlens-q 256,384 --seqlens-k 384,384"),
    ("--seqlens-q 200,130,1 --seqlens-k 333,200,150", "--seqlens-q 1,261 --seqlens-k 270,300"),
)
_CACHES = {
    "append": "--kv-cache linear --append 140 --splits 2",
    "append, rotary": "--kv-cache linear --append 140 --rotary 32 --causal --splits 2",
    "paged": "--kv-cache paged:256 --splits 2",
    "left padding": "--kv-cache linear --splits 2 --cache-leftpad 5,40",
}
_CACHE_LENGTHS = (
    ("-b 2 -s 140 --cache-seqlens 384,384", "-b 2 -s 140 --cache-seqlens 512,512"),
    ("-b 2 -s 140 --cache-seqlens 333,290", "-b 2 -s 140 --cache-seqlens 401,275"),
)
_HDIMS = (32, 64, 96, 128, 192, 256)


def _kind(name: str, backend: str, device: str, flags: str, lengths: Lengths = (EVEN, RAGGED)) -> PtxKind:
    even, ragged = (tuple(f"{length} {flags}".strip() for length in some) for some in lengths)
    return PtxKind(name, backend, device, even, ragged)


def flash_kinds(device: str = "emu:sm_80") -> Iterator[PtxKind]:
    """FlashAttention-2 over its six families and their features."""
    for hdim, dtype in product(_HDIMS, ("fp16", "bf16")):
        common = f"-d {hdim} --dtype {dtype}"
        heads = "-b 1 -H 2"
        for name, flags in _FEATURES.items():
            shape = "-b 1" if "-H" in flags else heads
            yield _kind(f"forward, {name}, d{hdim} {dtype}", "flash_attn", device, f"{shape} {common} {flags}")
        packed = f"-H 2 {common} --causal"
        yield _kind(f"forward, packed, d{hdim} {dtype}", "flash_attn", device, packed, _PACKED)
        yield _kind(f"splits, d{hdim} {dtype}", "flash_attn", device, f"{heads} {common} --splits 3 --lse")
        for name, flags in _CACHES.items():
            yield _kind(f"{name}, d{hdim} {dtype}", "flash_attn", device, f"-H 2 {common} {flags}", _CACHE_LENGTHS)
        for name in ("plain", "causal", "window", "ALiBi, causal", "softcap", "dropout"):
            flags = f"{heads} {common} {_FEATURES[name]} --direction bwd"
            yield _kind(f"backward, {name}, d{hdim} {dtype}", "flash_attn", device, flags)
        flags = f"{heads} {common} --direction bwd --deterministic"
        yield _kind(f"backward, deterministic, d{hdim} {dtype}", "flash_attn", device, flags)
        flags = f"-H 2 {common} --causal --direction bwd"
        yield _kind(f"backward, packed, d{hdim} {dtype}", "flash_attn", device, flags, _PACKED)


def all_kinds() -> tuple[PtxKind, ...]:
    """Every kind, those first that are soon compiled: FlashAttention-2's by head dim, because NVRTC needs minutes for each."""
    return (*cudnn_kinds(), *efficient_kinds(), *flash_kinds())
