"""Attention in plain numpy, float32, O(rows x keys), for the null backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_cli import api, plugin

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class OneSequence:
    """One sequence of a problem and its input and output tensors, by name."""

    problem: api.Problem
    tensors: Mapping[str, Array]
    b: int

    @property
    def seqlen_q(self) -> int:
        return self.problem.query_lengths()[self.b]

    @property
    def seqlen_k(self) -> int:
        return self.problem.key_lengths()[self.b]

    def rows(self, name: str, h: int) -> Array:
        """(seqlen_q, d) of q or o; a view."""
        p = self.problem
        return _rows(self.tensors[name], p, p.layout_of(name), p.query_lengths(), self.b, h)

    def keys(self, name: str, g: int) -> F32:
        """(seqlen_k, d) of k or v; paged keys are gathered."""
        p, tensor = self.problem, self.tensors[name]
        if p.paged:
            pages = self.tensors["block_table"][self.b, : -(-self.seqlen_k // p.kv_cache.page)]
            paged = tensor[pages, :, g].reshape(-1, tensor.shape[-1])
            return np.asarray(paged[: self.seqlen_k], np.float32)
        if p.cache_seqlens is not None:
            plane = tensor[self.b, g] if p.layout is plugin.Layout.BHSD else tensor[self.b, :, g]
            return np.asarray(plane[: self.seqlen_k], np.float32)
        return np.asarray(_rows(tensor, p, p.layout, p.key_lengths(), self.b, g), np.float32)

    def lse(self, h: int) -> Array:
        """(seqlen_q,) of lse; a view."""
        tensor = self.tensors["lse"]
        if self.problem.mode is plugin.Mode.BATCH:
            row: Array = tensor[self.b, h]
            return row
        return tensor[h, _packed(self.problem.query_lengths(), self.b)]

    def sink_logit(self, h: int) -> float | None:
        return float(self.tensors["sink_logits"][h]) if self.problem.sink_logits else None


def partial(view: OneSequence, h: int, first: int, end: int) -> tuple[F32, F32]:
    """O (seqlen_q, hdim_v) and LSE (seqlen_q,) over only the keys first..end-1, without the learned sink.

    A row that sees none of these keys gives O = 0, LSE = -inf.
    """
    p = view.problem
    g = h * p.kv_heads // p.heads
    s = _scores(view, h, view.keys("k", g)[first:end], first, end)
    top = s.max(axis=1, initial=-np.inf)
    weights = np.exp(s - np.where(np.isneginf(top), np.float32(0), top)[:, None])
    total = weights.sum(axis=1)
    seen = total > 0
    divisor = np.where(seen, total, np.float32(1))
    o = (weights / divisor[:, None]) @ view.keys("v", g)[first:end]
    return o.astype(np.float32), np.where(seen, top + np.log(divisor), -np.inf).astype(np.float32)


def combine(parts: Sequence[tuple[F32, F32]], sink_logit: float | None) -> tuple[F32, F32]:
    """The full O and LSE, combined from the splits, with the learned sink in the denominator."""
    lses = np.stack([lse for _, lse in parts])
    if sink_logit is not None:
        lses = np.concatenate([lses, np.full((1, lses.shape[1]), sink_logit, np.float32)])
    top = lses.max(axis=0)
    shares = np.exp(lses - np.where(np.isneginf(top), np.float32(0), top))
    total = shares.sum(axis=0)
    seen = total > 0
    divisor = np.where(seen, total, np.float32(1))
    o = sum((share / divisor)[:, None] * part for share, (part, _) in zip(shares, parts, strict=False))
    return np.asarray(o, np.float32), np.where(seen, top + np.log(divisor), -np.inf).astype(np.float32)


def _scores(view: OneSequence, h: int, k: F32, first: int, end: int) -> F32:
    p = view.problem
    s: F32 = view.rows("q", h).astype(np.float32) @ k.T * np.float32(p.scale)
    if p.softcap > 0:
        s = np.tanh(s / np.float32(p.softcap)) * np.float32(p.softcap)
    i, j = np.arange(view.seqlen_q)[:, None], np.arange(first, end)[None, :]
    bias = view.tensors.get("bias")
    if bias is not None:
        plane = bias[view.b if len(bias) > 1 else 0, h if bias.shape[1] > 1 else 0]
        s = s + plane[: view.seqlen_q, first:end].astype(np.float32)
    slopes = view.tensors.get("alibi_slopes")
    if slopes is not None:
        slope = slopes[h] if slopes.ndim == 1 else slopes[view.b, h]
        s = s - slope * np.abs(i + p.mask.delta(view.seqlen_q, view.seqlen_k) - j).astype(np.float32)
    sees = p.mask.visible(i, j, view.seqlen_q, view.seqlen_k, p.sink)
    return np.where(sees, s, np.float32(-np.inf)).astype(np.float32)


def _rows(tensor: Array, p: api.Problem, layout: plugin.Layout, lengths: tuple[int, ...], b: int, head: int) -> Array:
    bhsd = layout is plugin.Layout.BHSD
    if p.mode is plugin.Mode.BATCH:
        return tensor[b, head] if bhsd else tensor[b, :, head]
    part = _packed(lengths, b)
    return tensor[head, part] if bhsd else tensor[part, head]


def _packed(lengths: tuple[int, ...], b: int) -> slice:
    """The rows of one sequence within the packed rows."""
    first = sum(lengths[:b])
    return slice(first, first + lengths[b])
