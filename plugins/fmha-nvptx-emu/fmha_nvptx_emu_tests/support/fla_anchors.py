"""Attention of flash-linear-attention (fla-core 0.6.0): kernels that mask lengths, heads in groups, windows, packed sequences.

They are read from the installed package, each file by its digest. The first problem is one sequence that fills its tiles; the second has
packed sequences, one of a single row, with a window, and head dims that are not a power of two.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from fmha_nvptx_emu_tests.support.attention_anchors import PRODUCTS
from fmha_nvptx_emu_tests.support.triton_anchors import Array, Maker, Random, TritonLaunch

DIGESTS = {
    "ops/utils/op.py": "18cfb14ed285d6f4cc664b2d7e2e471d322fc897594eb13c61d179978bc50d0f",
    "ops/attn/parallel.py": "ea4338c124a7e1eef6872685fea4249165ae801d366bd4c102dae091c464c4df",
}
GROUP, BLOCK, STEP, WINDOW = 2, 64, 32, 40


def files() -> tuple[Path, ...]:
    """The files that have the kernels.

    Raises:
        ValueError: the package is not installed, or is another release.
    """
    found = importlib.util.find_spec("fla")
    if found is None or found.origin is None:
        raise ValueError("flash-linear-attention is not installed (pip install --no-deps fla-core==0.6.0)")
    paths = tuple(Path(found.origin).parent / name for name in DIGESTS)
    for path, digest in zip(paths, DIGESTS.values(), strict=True):
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise ValueError(f"{path} is not the file of fla-core 0.6.0")
    return paths


class Problem:
    """Inputs (rows, heads, head dim) in binary16, and P, O, the LSE to base two and the gradients in float64, by query head.

    Attributes:
        lengths: of the sequences, which lie one after another.
    """

    def __init__(self, random: Random, ragged: bool) -> None:
        self.ragged = ragged
        self.lengths = (70, 1, 100) if ragged else (128,)
        self.depth, self.depth_v = (56, 40) if ragged else (64, 64)
        self.rows, self.scale = sum(self.lengths), np.float32(0.125)
        shapes = {"q": (GROUP, self.depth), "k": (1, self.depth), "v": (1, self.depth_v), "do": (GROUP, self.depth_v)}
        self.given = {n: random.normal(0, 1, (self.rows, *s)).astype(np.float16) for n, s in shapes.items()}
        self.wanted = {
            n: np.zeros((self.rows, GROUP, d))
            for n, d in (("o", self.depth_v), ("dq", self.depth), ("dk", self.depth), ("dv", self.depth_v))
        }
        self.lse, self.delta = (np.zeros((self.rows, GROUP)) for _ in range(2))
        for start, length in zip(np.cumsum((0, *self.lengths)), self.lengths, strict=False):
            for head in range(GROUP):
                self._compute(slice(start, start + length), head, length)

    def _compute(self, rows: slice, head: int, length: int) -> None:
        q, do = (self.given[n][rows, head].astype(np.float64) for n in ("q", "do"))
        k, v = (self.given[n][rows, 0].astype(np.float64) for n in ("k", "v"))
        scale = float(self.scale)
        back = np.arange(length)[:, None] - np.arange(length)
        scores = np.where((back >= 0) & (not self.ragged or back < WINDOW), q @ k.T * scale / np.log(2), -np.inf)
        top = scores.max(1, keepdims=True)
        sums = np.exp2(scores - top).sum(1, keepdims=True)
        p = np.exp2(scores - top) / sums
        out = p @ v
        delta = (out * do).sum(1)
        ds = p * (do @ v.T - delta[:, None]) * scale
        self.lse[rows, head], self.delta[rows, head] = (top + np.log2(sums))[:, 0], delta
        for name, value in (("o", out), ("dq", ds @ k), ("dk", ds.T @ q), ("dv", p.T @ do)):
            self.wanted[name][rows, head] = value

    def case(
        self, kernel: str, arguments: dict[str, Any], outputs: dict[str, Array], absent: tuple[str, ...]
    ) -> TritonLaunch:
        """A launch of a kernel: ``arguments`` in addition to the ones of every kernel, and the expected ``outputs``."""
        starts = np.cumsum((0, *self.lengths)).astype(np.int32)
        chunks = [(n, t) for n, length in enumerate(self.lengths) for t in range(-(-length // BLOCK))]
        packed = {"cu_seqlens": starts, "chunk_indices": np.array(chunks, np.int32)} if self.ragged else {}
        none = dict.fromkeys((*absent, *(() if packed else ("cu_seqlens", "chunk_indices"))))
        constants = {
            **none, "W": WINDOW if self.ragged else None, "B": 1, "H": 1, "HQ": GROUP, "G": GROUP, "K": self.depth, "V": self.depth_v, "BT": BLOCK,
            "BS": STEP, "BK": 64, "BV": 64, "USE_G": False, "USE_WINDOW": self.ragged, "IS_VARLEN": self.ragged,
        }  # fmt: skip
        if "sink_bias" in none:
            constants["USE_SINK_BIAS"] = False
        size = f"lengths {list(self.lengths)}, {GROUP} heads, {self.depth} and {self.depth_v}{f', window {WINDOW}' * self.ragged}"
        kinds = {n: np.float32 if n == "lse" else np.float16 for n in outputs}
        empty = {n: np.zeros(a.shape, kinds[n]) for n, a in outputs.items()}
        given = {**arguments, **empty, **packed, "scale": self.scale, "T": np.int32(self.rows)}
        return TritonLaunch(
            files(), kernel, size, given, constants, outputs, (len(chunks), GROUP, 1), self.ragged, budget=PRODUCTS
        )


def forward(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """O and the LSE."""
    it = Problem(random, ragged)
    inputs = {n: it.given[n] for n in "qkv"}
    return it.case("parallel_attn_fwd_kernel", inputs, {"o": it.wanted["o"], "lse": it.lse}, ("g_cumsum", "sink_bias"))


def _backward(it: Problem, kernel: str, outputs: tuple[str, ...]) -> TritonLaunch:
    inputs = {**it.given, "lse": it.lse.astype(np.float32), "delta": it.delta.astype(np.float32)}
    return it.case(kernel, inputs, {n: it.wanted[n] for n in outputs}, ("g_cumsum", "dg_cumsum"))


def backward_dq(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """dQ."""
    return _backward(Problem(random, ragged), "parallel_attn_bwd_kernel_dq", ("dq",))


def backward_dkv(random: Random, ragged: bool, arch: str) -> TritonLaunch:
    """dK and dV of each query head."""
    return _backward(Problem(random, ragged), "parallel_attn_bwd_kernel_dkv", ("dk", "dv"))


CASES: dict[str, Maker] = {
    "packed attention": forward, "packed attention, dQ": backward_dq, "packed attention, dK and dV": backward_dkv,
}  # fmt: skip
