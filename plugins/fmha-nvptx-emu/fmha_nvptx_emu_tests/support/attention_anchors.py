"""The attention of Triton's tutorial 06: forward, the sums before the backward, and the backward.

The kernels have no masks for lengths: N_CTX is a multiple of the blocks. The second problem has three blocks of queries, without a
causal mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fmha_nvptx_emu_tests.support.triton_anchors import Array, Maker, Random, TritonLaunch
from fmha_nvptx_emu_tests.support.tutorial_anchors import SINGLE, tutorial

HEADS, DEPTH = 2, 64
FILE = "06-fused-attention.py"
PRODUCTS = 2.0**-10
"""Budget of outputs of a product whose left side was rounded to binary16 too: twice that of one rounding."""


def _inputs(random: Random, second: bool, count: int) -> tuple[int, list[Array]]:
    """The length, and arrays (heads, length, depth) in binary16."""
    length = 192 if second else 128
    return length, [random.normal(0, 1, (HEADS, length, DEPTH)).astype(np.float16) for _ in range(count)]


def _scores(q: Array, k: Array, scale: float, causal: bool) -> Array:
    """Masked scores in float64, as powers of two take them."""
    s = q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), 1, 2) * (scale / np.log(2))
    return np.where(np.tri(s.shape[1], dtype=bool), s, -np.inf) if causal else s


def _softmax(scores: Array) -> tuple[Array, Array]:
    """P, and the logarithm to base two of the sums."""
    top = scores.max(-1, keepdims=True)
    e = np.exp2(scores - top)
    return e / e.sum(-1, keepdims=True), (top + np.log2(e.sum(-1, keepdims=True)))[..., 0]


def _forward(random: Random, second: bool, arch: str, specialise: bool) -> TritonLaunch:
    length, (q, k, v) = _inputs(random, second, 3)
    scale, causal = np.float32(0.125), not second and not specialise
    p, sums = _softmax(_scores(q, k, float(scale), causal))
    flat = (HEADS * length, DEPTH)
    arguments: dict[str, Any] = {
        "sm_scale": scale, "M": np.zeros((HEADS, length), np.float32), "Z": 1, "H": HEADS, "desc_q": q.reshape(flat), "desc_k": k.reshape(flat),
        "desc_v": v.reshape(flat), "desc_o": np.zeros(flat, np.float16), "N_CTX": length,
    }  # fmt: skip
    constants = {
        "HEAD_DIM": DEPTH, "BLOCK_M": 64, "BLOCK_N": 32, "FP8_OUTPUT": False, "STAGE": 3 if causal else 1, "warp_specialize": specialise,
        "IS_HOPPER": arch == "sm_90",
    }  # fmt: skip
    blocks = {"desc_q": (64, DEPTH), "desc_k": (32, DEPTH), "desc_v": (32, DEPTH), "desc_o": (64, DEPTH)}
    wanted = {"desc_o": (p @ v.astype(np.float64)).reshape(flat), "M": sums}
    size = f"{HEADS} heads, {length}x{DEPTH}{', causal' * causal}"
    return TritonLaunch(tutorial(FILE), "_attn_fwd", size, arguments, constants, wanted, (length // 64, HEADS, 1), second, stages=3, budget=PRODUCTS, blocks=blocks)  # fmt: skip


def forward(random: Random, second: bool, arch: str) -> TritonLaunch:
    """The forward; its tiles come by TMA where there are tensor maps."""
    return _forward(random, second, arch, specialise=False)


def specialised(random: Random, second: bool, arch: str) -> TritonLaunch:
    """The same, with ``warp_specialize`` on its loop, without a mask: with one, Triton 3.9.0 fails to compile it for sm_90."""
    return _forward(random, second, arch, specialise=True)


def preprocess(random: Random, second: bool, arch: str) -> TritonLaunch:
    """Sums of O times dO."""
    length, (o, do) = _inputs(random, second, 2)
    arguments = {"O": o, "DO": do, "Delta": np.zeros((HEADS, length), np.float32), "Z": 1, "H": HEADS, "N_CTX": length}
    constants = {"BLOCK_M": 64, "HEAD_DIM": DEPTH}
    wanted = {"Delta": (o.astype(np.float64) * do).sum(-1)}
    return TritonLaunch(tutorial(FILE), "_attn_bwd_preprocess", f"{HEADS} heads, {length}x{DEPTH}", arguments, constants, wanted, (length // 64, HEADS, 1), second, budget=SINGLE)  # fmt: skip


def backward(random: Random, second: bool, arch: str) -> TritonLaunch:
    """dQ, dK and dV. The caller scales K beforehand, as the tutorial's does."""
    length, (q, k, v, do) = _inputs(random, second, 4)
    scale, causal = np.float32(0.125), not second
    scaled = (k * (float(scale) / np.log(2))).astype(np.float16)
    p, sums = _softmax(_scores(q, scaled, float(np.log(2)), causal))
    wide, before = do.astype(np.float64), scaled.astype(np.float64)
    delta = ((p @ v.astype(np.float64)) * wide).sum(-1)
    ds = p * (wide @ np.swapaxes(v.astype(np.float64), 1, 2) - delta[..., None])
    wanted = {
        "DQ": ds @ before * np.log(2), "DK": np.swapaxes(ds, 1, 2) @ q.astype(np.float64) * float(scale),
        "DV": np.swapaxes(p, 1, 2) @ wide,
    }  # fmt: skip
    arguments: dict[str, Any] = {
        "Q": q, "K": scaled, "V": v, "sm_scale": scale, "DO": do, **{n: np.zeros_like(q) for n in wanted}, "M": sums.astype(np.float32),
        "D": delta.astype(np.float32), "stride_z": q.size, "stride_h": length * DEPTH, "stride_tok": DEPTH, "stride_d": 1, "H": HEADS, "N_CTX": length,
    }  # fmt: skip
    constants = {
        "BLOCK_M1": 32, "BLOCK_N1": 64, "BLOCK_M2": 64, "BLOCK_N2": 32, "BLK_SLICE_FACTOR": 2, "HEAD_DIM": DEPTH, "CAUSAL": causal,
    }  # fmt: skip
    size = f"{HEADS} heads, {length}x{DEPTH}{', causal' * causal}"
    return TritonLaunch(tutorial(FILE), "_attn_bwd", size, arguments, constants, wanted, (length // 64, 1, HEADS), second, budget=PRODUCTS)  # fmt: skip


CASES: dict[str, Maker] = {
    "attention": forward, "attention, warp-specialised": specialised, "attention, sums": preprocess, "attention, backward": backward,
}  # fmt: skip
