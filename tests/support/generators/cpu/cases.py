"""Random attention problems in buffers with gaps and guards of NaN, and the float64 formula for their results."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.kernels import cpu_kernels, others_from
from fmha_cli.codegen.abi import ENTRY, FmhaCpuArgs
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.struct import pack
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from tests.support.fakes.software_tiles import AMX
from tests.support.models.faults import Fault

Array = npt.NDArray[Any]
NUMPY = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
WORD = 2**32
GUARD = 64
Load = Callable[..., ctypes.CDLL]
"""``load(arch, dtype, kind, fault=None)``: a compiled kernel."""


BEST = detect().archs[0]
"""This machine's best architecture; what it has no kernel for comes from the next ones (``kernel_of``)."""


def best_first(archs: Iterable[str], *, default: bool = True) -> list[Any]:
    """Architectures as parameters: the default suite, or else CI, has this machine's best one, or the first of those that lack it; CI has
    the plainest too, which is the last, and the slow suite those between."""
    named = [*archs]
    first = BEST if BEST in named else next(iter(named), BEST)
    slow, ci = [pytest.mark.slow], [pytest.mark.slow, pytest.mark.ci]
    marks = {arch: ci if arch == named[-1] else slow for arch in named} | {first: [] if default else ci}
    return [pytest.param(arch, marks=marks[arch]) for arch in named]


def best_and_tiles() -> list[Any]:
    """Architectures and types as parameters: this machine's best one; slow, bf16 in matrix tiles, which are software without AMX."""
    tiles = [] if BEST == AMX else [pytest.param(AMX, "bf16", marks=pytest.mark.slow)]
    return [*((BEST, dtype) for dtype in ("fp32", "fp16", "bf16")), *tiles]


def kernel_of(arch: str, dtype: str, kind: str) -> KernelSpec:
    """The kernel of an architecture, dtype and kind; of the architecture that has the others, if it has none."""
    archs = (arch, *others_from(load_arch(arch)))
    found = [k for name in archs for k in cpu_kernels(load_arch(name)) if k.signature.dtype is DType(dtype)]
    return next(k for k in found if getattr(k.algorithm, "kind", None) is LoopKind(kind))


@dataclass
class AttentionCase:
    """One problem. ``q_len`` and ``k_len`` are per sequence; ``capacity`` is the rows of K and V in batch mode.

    ``bias`` has the planes (sequences, heads), and one row for all queries without ``bias_rows``. With a ``page``, the kernel reads K and V from pages of so many rows, which are copies of ``k`` and ``v``. ``v_in_k``: V
    is the first columns of K. ``large``: scores are so large that little is left of them in fp32, so the formula rounds them too.
    """

    dtype: str
    heads: int = 2
    kv_heads: int = 2
    hdim: int = 64
    hdim_v: int = 64
    q_len: tuple[int, ...] = (40,)
    k_len: tuple[int, ...] = (70,)
    packed: bool = False
    capacity: int = 0
    bshd: bool = False
    gap: int = 0
    left: int | None = None
    right: int | None = None
    top_left: bool = False
    sink: int = 0
    scale: float = 0.125
    softcap: float = 0.0
    bias: tuple[int, int] | None = None
    bias_rows: bool = True
    alibi: int | None = None
    sink_logits: bool = False
    dropout: float = 0.0
    seed: int = 1
    offset: int = 0
    threads: int = 2
    splits: int = 0
    page: int = 0
    v_in_k: bool = False
    large: bool = False
    data: dict[str, Array] = field(default_factory=dict, repr=False)

    @property
    def batch(self) -> int:
        return len(self.q_len)

    @property
    def threshold(self) -> int:
        return int(self.dropout * WORD)


def random_case(rng: np.random.Generator, dtype: str, *, few_rows: bool) -> AttentionCase:
    """A case over the whole surface. ``few_rows``: at most 64 query rows per key/value head."""

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    batch, group, kv_heads = (int(rng.integers(1, 4)) for _ in range(3))
    most = 63 // group if few_rows else 70
    packed = bool(rng.random() < 0.35)
    q_len = [int(rng.integers(0, most + 1)) for _ in range(batch)]
    k_len = [int(rng.integers(0, 280)) for _ in range(batch)]
    capacity = 0
    if not packed:
        q_len, capacity = [max(1, q_len[0])] * batch, pick(1, 7, 50, 130, 517)
        k_len = [int(rng.integers(0, capacity + 1)) for _ in range(batch)] if rng.random() < 0.2 else [capacity] * batch
    hdim = pick(1, 3, 8, 16, 20, 32, 33, 64, 72, 80, 128, 200, 256, 320, 576)
    v_in_k = bool(hdim > 1 and rng.random() < 0.15)
    left, right, top_left = {
        "none": lambda: (None, None, False),
        "causal": lambda: (None, 0, bool(rng.random() < 0.4)),
        "window": lambda: (int(rng.integers(60)), int(rng.integers(60)), bool(rng.random() < 0.4)),
        "generic": lambda: (int(rng.integers(-40, 60)), int(rng.integers(-40, 60)), True),
    }[pick("none", "causal", "window", "generic")]()
    wanted = rng.random(5) < 0.3
    bias = pick((1, 1), (1, group * kv_heads), (batch, group * kv_heads)) if wanted[1] else None
    case = AttentionCase(
        dtype=dtype, heads=group * kv_heads, kv_heads=kv_heads, hdim=hdim,
        hdim_v=int(rng.integers(1, hdim)) if v_in_k else pick(hdim, 1, 2, 5, 8, 17, 24, 32, 64, 100, 128, 256, 512, 576),
        v_in_k=v_in_k, q_len=tuple(q_len), k_len=tuple(k_len),
        packed=packed, capacity=capacity, bshd=bool(rng.random() < 0.5), gap=pick(0, 0, 3, 5),
        left=left, right=right, top_left=top_left, sink=pick(0, 4, 9, 100) if left is not None else 0,
        scale=pick(hdim**-0.5, hdim**-0.5, -0.1, 0.0, 0.2), softcap=pick(1.0, 15.0, 50.0) if wanted[0] else 0.0,
        bias=bias, alibi=pick(1, batch) if wanted[2] and bias is None else None, sink_logits=bool(wanted[3]),
        dropout=pick(0.1, 0.5) if wanted[4] else 0.0, seed=int(rng.integers(2**63)), offset=int(rng.integers(2**32)),
        threads=pick(1, 2), splits=pick(0, 0, 1, 3) if few_rows else 0,
        page=pick(1, 3, 16, 64, 100) if rng.random() < 0.3 else 0,
    )  # fmt: skip
    if bias and rng.random() < 0.5:
        case.bias, case.bias_rows = pick(bias, (batch, 1)), bool(rng.random() < 0.3)
    return case


def _rows(case: AttentionCase, heads: int, lengths: tuple[int, ...], rows: int, dim: int) -> tuple[Array, Array]:
    """A buffer full of NaN, and a view inside it: a tensor (batch or 1, heads, rows, dim) with gaps."""
    count = 1 if case.packed else case.batch
    rows = sum(lengths) if case.packed else rows
    width = dim + case.gap
    buffer = np.full(count * heads * rows * width + 2 * GUARD, np.nan, NUMPY[case.dtype])
    body = buffer[GUARD : len(buffer) - GUARD]
    if case.bshd:
        return buffer, body.reshape(count, rows, heads, width)[..., :dim].transpose(0, 2, 1, 3)
    return buffer, body.reshape(count, heads, rows, width)[..., :dim]


def make_data(case: AttentionCase, rng: np.random.Generator) -> None:
    """Fill ``case.data``. Only rows in use get numbers; gaps, guards and the rest of a cache stay NaN."""
    d = case.data
    for name, heads, dim in (
        ("q", case.heads, case.hdim), ("k", case.kv_heads, case.hdim),
        ("v", case.kv_heads, case.hdim_v), ("o", case.heads, case.hdim_v),
    ):  # fmt: skip
        if name == "v" and case.v_in_k:
            d["v"] = d["k"][..., : case.hdim_v]
            continue
        lengths, rows = (case.k_len, case.capacity or max(case.k_len)) if name in "kv" else (case.q_len, case.q_len[0])
        d[f"{name}_buffer"], d[name] = _rows(case, heads, lengths, rows, dim)
        if name != "o":
            d[name][...] = rng.standard_normal(d[name].shape, np.float32).astype(d[name].dtype)
    if not case.packed:
        for b, n in enumerate(case.k_len):
            d["k"][b, :, n:], d["v"][b, :, n:] = np.nan, np.nan
    if case.page:
        make_pages(case, rng)
    d["lse"] = np.full(d["o"].shape[:3], np.nan, np.float32)
    d["q_len"], d["k_len"] = (np.array(x, np.int64) for x in (case.q_len, case.k_len))
    d["q_start"], d["k_start"] = (np.cumsum(d[n]) - d[n] for n in ("q_len", "k_len"))
    if case.bias:
        shape = (*case.bias, max(case.q_len) if case.bias_rows else 1, case.capacity or max(case.k_len))
        bias = rng.standard_normal(shape, np.float32)
        bias[rng.random(shape) < 0.1] = -np.inf
        d["bias"] = bias.astype(NUMPY[case.dtype])
    if case.alibi:
        d["alibi_slopes"] = (2.0 ** -rng.uniform(0, 8, (case.alibi, case.heads))).astype(np.float32)
    if case.sink_logits:
        d["sink_logits"] = (rng.standard_normal(case.heads) * 3).astype(np.float32)


def make_pages(case: AttentionCase, rng: np.random.Generator) -> None:
    """Copies of K and V on pages in random order, and their table. What holds no key is NaN, unused entries are -1."""
    d = case.data
    used = [-(-n // case.page) for n in case.k_len]
    order = rng.permutation(sum(used) + 1)
    table = np.full((case.batch, max(used) + 1), -1, np.int32)
    for b, count in enumerate(used):
        table[b, :count] = order[sum(used[:b]) :][:count]
    d["block_table"] = table
    starts = np.cumsum(case.k_len) - case.k_len if case.packed else [0] * case.batch
    for name, dim in (("k", case.hdim), ("v", case.hdim_v)):
        pages = np.full((len(order), case.page, case.kv_heads, dim + case.gap), np.nan, NUMPY[case.dtype])[..., :dim]
        for b, n in enumerate(case.k_len):
            j = np.arange(n)
            rows = d[name][0 if case.packed else b, :, starts[b] : starts[b] + n]
            pages[table[b, j // case.page], j % case.page] = rows.transpose(1, 0, 2)
        d[f"{name}_pages"] = pages


def _paging(case: AttentionCase) -> dict[str, int]:
    d, values = case.data, {"page": case.page, "block_table_stride": case.data["block_table"].shape[1]}
    for name in ("k", "v"):
        page, row, head, _ = (s // d[name].itemsize for s in d[f"{name}_pages"].strides)
        values |= {f"{name}_page_stride": page, f"{name}_row_stride": row, f"{name}_head_stride": head}
    return values | {f"{name}_batch_stride": 0 for name in ("k", "v")}


def arguments(case: AttentionCase) -> FmhaCpuArgs:
    """The kernel's argument block."""
    d, values = case.data, {}
    for name in ("q", "k", "v", "o"):
        strides = [s // d[name].itemsize for s in d[name].strides[:3]]
        strides[0] = 0 if case.packed else strides[0]
        values |= {f"{name}_{a}_stride": s for a, s in zip(("batch", "head", "row"), strides, strict=True)}
    _, heads, rows = d["lse"].shape
    values |= {"lse_batch_stride": 0 if case.packed else heads * rows, "lse_head_stride": rows, "lse_row_stride": 1}
    if case.bias:
        (nb, nh, r, k) = d["bias"].shape
        values |= {
            "bias_batch_stride": nh * r * k * (nb > 1),
            "bias_head_stride": r * k * (nh > 1),
            "bias_row_stride": k * case.bias_rows,
        }
    if case.alibi:
        values["alibi_batch_stride"] = case.heads * (case.alibi > 1)
    names = ["q", "k", "v", "o", "lse", *(n for n in ("bias", "alibi_slopes", "sink_logits") if n in d)]
    names += ["q_start", "q_len", "k_start", "k_len"] if case.packed else ["k_len"]
    pointers = {n: d[n].ctypes.data for n in names}
    if case.page:
        values |= _paging(case)
        pointers |= {"block_table": d["block_table"].ctypes.data} | {n: d[f"{n}_pages"].ctypes.data for n in ("k", "v")}
    return FmhaCpuArgs(
        **pointers, **values, batch=case.batch, heads=case.heads, kv_heads=case.kv_heads,
        seqlen_q=max(case.q_len), seqlen_k=case.capacity or max(case.k_len), hdim=case.hdim, hdim_v=case.hdim_v,
        left=case.left or 0, right=case.right or 0, sink=case.sink, splits=case.splits, seed=case.seed,
        scale=case.scale, softcap=case.softcap, keep_scale=WORD / (WORD - case.threshold),
        dropout_threshold=case.threshold, offset=case.offset, has_left=int(case.left is not None),
        has_right=int(case.right is not None), top_left=int(case.top_left), threads=case.threads,
    )  # fmt: skip


def run(library: ctypes.CDLL, case: AttentionCase, **settings: int) -> None:
    """Launch once; the results are in ``case.data``. ``settings`` are further members of the argument block."""
    status = library[ENTRY](ctypes.byref(pack(replace(arguments(case), **settings))))
    assert status == 0
    assert not tile_faults(library)


def tile_faults(library: ctypes.CDLL) -> int:
    """What a processor with matrix tiles would have refused in a library with software tiles."""
    return ctypes.c_int.in_dll(library, "fmha_tile_faults").value if hasattr(library, "fmha_tile_faults") else 0


def philox(counter: list[Array], seed: int) -> list[Array]:
    """Philox 4x32-10 on arrays of 64-bit integers that hold 32-bit words."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(x, np.uint64) for x in counter]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & low,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


@dataclass
class ExpectedHead:
    """The formula's result for one (sequence, head): O, LSE, visibility and weights in float64."""

    o: Array
    lse: Array
    weights: Array
    v: Array


def formula(case: AttentionCase, b: int, h: int) -> ExpectedHead:
    """The formula of the contract, computed directly."""
    d, hk = case.data, h // (case.heads // case.kv_heads)
    nq, nk = case.q_len[b], case.k_len[b]
    i0, j0 = (int(d["q_start"][b]), int(d["k_start"][b])) if case.packed else (0, 0)
    at = 0 if case.packed else b
    q, k, v = (d["q"][at, h, i0 : i0 + nq], d["k"][at, hk, j0 : j0 + nk], d["v"][at, hk, j0 : j0 + nk])
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    i, j = np.arange(nq)[:, None], np.arange(nk)[None]
    delta = 0 if case.top_left else nk - nq
    visible = np.ones((nq, nk), bool)
    if case.right is not None:
        visible &= j <= i + delta + case.right
    if case.left is not None:
        visible &= (j >= i + delta - case.left) | (j < case.sink)
    with np.errstate(all="ignore"):
        s = float(np.float32(case.scale)) * (q @ k.T)
        if case.softcap:
            s = case.softcap * np.tanh(s / case.softcap)
        if case.bias:
            bias = d["bias"][b % case.bias[0], h % case.bias[1], :nq, :nk].astype(np.float64)
            s, visible = s + bias, visible & ~np.isneginf(bias)
        if case.alibi:
            s = s - d["alibi_slopes"][b % case.alibi, h] * np.abs(i + delta - j)
        s = s.astype(np.float32).astype(np.float64) if case.large else s
        s = np.where(visible, s, -np.inf)
        top = s.max(axis=1, initial=-np.inf)
        if case.sink_logits:
            top = np.maximum(top, d["sink_logits"][h])
        safe = np.where(np.isneginf(top), 0, top)
        p = np.exp(s - safe[:, None])
        total = p.sum(axis=1) + (np.exp(d["sink_logits"][h] - safe) if case.sink_logits else 0)
        lse = np.where(total == 0, -np.inf, safe + np.log(total))
        p = p / np.where(total == 0, 1, total)[:, None]
    if case.threshold:
        ones = np.ones((nq, nk), np.uint64)
        words = philox([(j >> 2) * ones, i * ones, (b * case.heads + h) * ones, case.offset * ones], case.seed)
        word = np.take_along_axis(np.stack(words), ((j & 3) + 0 * i)[None], 0)[0]
        p = p * (word >= case.threshold) * (WORD / (WORD - case.threshold))
    o = np.stack([p[r][visible[r]] @ v[visible[r]] for r in range(nq)]) if nq else np.zeros((0, case.hdim_v))
    return ExpectedHead(o, lse, p, v)


BUDGET = {"fp32": 8e-6, "fp16": 2**-10, "bf16": 2**-7}
"""Largest error of a row, relative to its size or to the size of its parts before they cancel."""

TINY = {"fp32": 0.0, "fp16": 2**-25, "bf16": 0.0}
"""Half the spacing of subnormal outputs."""


def score_error(case: AttentionCase) -> float:
    """The relative error of a weight that rounding a sum of hdim products in fp32 causes: q.k of normal data reaches hdim, and
    without fused multiply-adds each step rounds twice."""
    return 2**-23 * abs(case.scale) * case.hdim


def complaints(case: AttentionCase) -> list[str]:
    """Errors in the results in ``case.data``."""
    d, out = case.data, []
    for b in range(case.batch):
        nq = case.q_len[b]
        i0, at = (int(d["q_start"][b]), 0) if case.packed else (0, b)
        for h in range(case.heads if nq else 0):
            row = formula(case, b, h)
            o = d["o"][at, h, i0 : i0 + nq].astype(np.float64)
            lse = d["lse"][at, h, i0 : i0 + nq].astype(np.float64)
            if (np.isfinite(o) != np.isfinite(row.o)).any():
                out.append(f"b{b} h{h}: finite elements differ")
            with np.errstate(all="ignore"):
                far = ~(np.abs(lse - row.lse) <= (2e-5 if case.large else 1e-5) * (1 + np.abs(row.lse))) & (
                    lse != row.lse
                )
                error = np.linalg.norm(np.where(np.isfinite(row.o), o - row.o, 0), axis=1)
                parts = np.sqrt(row.weights**2 @ np.nan_to_num(row.v**2).sum(axis=1)) if row.v.size else np.zeros(nq)
                size = np.maximum(np.linalg.norm(np.nan_to_num(row.o), axis=1), parts)
            if (far & ~(np.isnan(lse) & np.isnan(row.lse))).any():
                out.append(f"b{b} h{h}: lse {lse[far][:3]} is not {row.lse[far][:3]}")
            wrong = error > (BUDGET[case.dtype] + score_error(case)) * size + TINY[case.dtype] * math.sqrt(case.hdim_v)
            if wrong.any():
                out.append(
                    f"b{b} h{h} rows {np.flatnonzero(wrong)[:5]}: o is off by {(error[wrong] / size[wrong])[:3]}"
                )
    return out + _written_outside(case)


def _written_outside(case: AttentionCase) -> list[str]:
    """An error if a guard or a gap of O stops being NaN."""
    buffer, o = case.data["o_buffer"], case.data["o"]
    outside = np.ones(buffer.size, bool)
    base = (o.ctypes.data - buffer.ctypes.data) // o.itemsize
    index = np.full(o.shape, base)
    for axis, (n, stride) in enumerate(zip(o.shape, o.strides, strict=True)):
        shape = [1] * o.ndim
        shape[axis] = n
        index = index + (np.arange(n) * (stride // o.itemsize)).reshape(shape)
    outside[index.ravel()] = False
    return [] if np.isnan(buffer[outside].astype(np.float32)).all() else ["written outside of O"]


FAULT_NEEDS: dict[Fault, dict[str, object]] = {
    Fault.WINDOW_SIDE: {"left": 20, "right": 3},
    Fault.MASK_OFF_BY_ONE: {"right": 0},
    Fault.DROPOUT_INVERTED: {"dropout": 0.3},
    Fault.ALIBI_SIGN: {"alibi": 1},
    Fault.V_COLUMNS: {"hdim_v": 24, "v_in_k": True},
}
"""What a problem needs for the fault to have an effect; the other faults affect any problem."""
