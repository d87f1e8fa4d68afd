"""Backward problems in buffers with gaps and guards of NaN, and the gradients by the formula, from visible pairs alone."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.codegen.abi import BACKWARD_ENTRY, FmhaCpuArgs, FmhaCpuBwdArgs
from fmha_cli.codegen.struct import pack
from tests.support.fakes.software_tiles import AMX, WHOLE
from tests.support.generators.cpu.cases import (
    TINY,
    WORD,
    Array,
    AttentionCase,
    _rows,
    arguments,
    formula,
    make_data,
    philox,
    random_case,
    score_error,
)

DTYPES = ("fp32", "fp16", "bf16")
BEST = WHOLE[0]
"""The architecture that this machine prefers."""

DAILY = {*((BEST, dtype) for dtype in DTYPES), ("x86_64_v3", "bf16"), (AMX, "bf16")}
"""The kernels that the default suite compiles; each takes seconds."""

KERNELS = [
    pytest.param(arch, dtype, marks=() if (arch, dtype) in DAILY else pytest.mark.slow)
    for arch in ARCHS
    for dtype in DTYPES
]
"""Architecture and dtype of every backward kernel."""

OF_ROWS, OF_KEYS = ("dout", "dq"), ("dk", "dv")


@dataclass
class BackwardCase(AttentionCase):
    """A problem with dO; ``with_lse``: whether the kernel is given the LSE; ``dbias``: whether it returns dBias."""

    with_lse: bool = True
    dbias: bool = False


def random_backward(rng: np.random.Generator, dtype: str) -> BackwardCase:
    """A case over the whole surface; a cache has no backward pass, so every key of a batch is there."""
    plain = replace(random_case(rng, dtype, few_rows=False), page=0)
    values = {f.name: getattr(plain, f.name) for f in fields(AttentionCase)} | {"data": {}, "splits": 0}
    if not plain.packed:
        values["k_len"] = (plain.capacity,) * plain.batch
    case = BackwardCase(**values, with_lse=bool(rng.random() < 0.8))
    case.dbias = case.bias is not None and bool(rng.random() < 0.8)
    return case


def make_backward(case: BackwardCase, rng: np.random.Generator) -> None:
    """Fill ``case.data``: the inputs of the forward pass, O and LSE by the formula, and dO; gradients are NaN."""
    make_data(case, rng)
    d = case.data
    for name, heads, lengths, dim in (
        ("dout", case.heads, case.q_len, case.hdim_v), ("dq", case.heads, case.q_len, case.hdim),
        ("dk", case.kv_heads, case.k_len, case.hdim), ("dv", case.kv_heads, case.k_len, case.hdim_v),
    ):  # fmt: skip
        d[f"{name}_buffer"], d[name] = _rows(case, heads, lengths, lengths[0], dim)
    d["dout"][...] = rng.standard_normal(d["dout"].shape, np.float32).astype(d["dout"].dtype)
    if case.bias:
        d["dbias"] = np.full_like(d["bias"], np.nan)
    finish_forward(case)


def finish_forward(case: BackwardCase) -> None:
    """O and LSE of the inputs as they are now."""
    d = case.data
    for b in range(case.batch):
        for h in range(case.heads if case.q_len[b] else 0):
            with np.errstate(all="ignore"):
                row = formula(case, b, h)
                part(case, "o", b, h)[...] = row.o.astype(d["o"].dtype)
            part(case, "lse", b, h)[...] = row.lse


def part(case: AttentionCase, name: str, b: int, h: int) -> Array:
    """The rows of one sequence and head of a tensor: a view."""
    keys = name in ("k", "v", "dk", "dv")
    n = (case.k_len if keys else case.q_len)[b]
    start = int(case.data["k_start" if keys else "q_start"][b]) if case.packed else 0
    return case.data[name][0 if case.packed else b, h, start : start + n]


def backward_arguments(case: BackwardCase) -> FmhaCpuBwdArgs:
    """The kernel's argument block."""
    d, plain = case.data, arguments(case)
    values = {f.name: getattr(plain, f.name) for f in fields(FmhaCpuArgs)}
    for name in (*OF_ROWS, *(name for name in OF_KEYS if name != "dv" or not case.v_in_k)):
        strides = [s // d[name].itemsize for s in d[name].strides[:3]]
        strides[0] = 0 if case.packed else strides[0]
        values |= {f"{name}_{a}_stride": s for a, s in zip(("batch", "head", "row"), strides, strict=True)}
        values[name] = d[name].ctypes.data
    if case.dbias:
        values |= {f"dbias_{axis}_stride": values[f"bias_{axis}_stride"] for axis in ("batch", "head", "row")}
        values["dbias"] = d["dbias"].ctypes.data
    if not case.packed:
        values["k_len"] = 0
    if not case.with_lse:
        values["lse"] = 0
    return FmhaCpuBwdArgs(**values)


def run_backward(library: ctypes.CDLL, case: BackwardCase) -> None:
    """Launch once; the gradients are in ``case.data``."""
    assert library[BACKWARD_ENTRY](ctypes.byref(pack(backward_arguments(case)))) == 0


@dataclass
class Sums:
    """A gradient by the formula, and the size of the parts of each row before they cancel."""

    value: Array
    parts: Array


def gradients(case: BackwardCase) -> dict[str, Sums]:
    """dq, dk, dv, and dbias when asked for; where V is in K, dk holds dv's share. O and LSE are taken from ``case.data``, as the kernel takes them."""
    d = case.data
    out = {}
    for name in ("dq", "dk", "dv"):
        out[name] = Sums(np.zeros(d[name].shape), np.zeros(d[name].shape[:-1]))
    if case.dbias:
        out["dbias"] = Sums(np.zeros(d["bias"].shape), np.zeros(d["bias"].shape))
    whole = {**case.data, **{name: sums.value for name, sums in out.items()}}
    squares = {**case.data, **{name: sums.parts for name, sums in out.items()}}
    values, sizes = _with(case, whole), _with(case, squares)
    for b in range(case.batch):
        for h in range(case.heads if case.q_len[b] else 0):
            _add_head(case, values, sizes, b, h)
    if case.v_in_k:
        dv = out.pop("dv")
        out["dk"].value[..., : case.hdim_v] += dv.value
        out["dk"].parts += dv.parts
    for sums in out.values():
        np.sqrt(sums.parts, out=sums.parts)
    return out


def _with(case: BackwardCase, data: dict[str, Array]) -> BackwardCase:
    values: dict[str, Any] = {f.name: getattr(case, f.name) for f in fields(BackwardCase)}
    return BackwardCase(**(values | {"data": data}))


def _add_head(case: BackwardCase, values: BackwardCase, sizes: BackwardCase, b: int, h: int) -> None:
    d, hk = case.data, h // (case.heads // case.kv_heads)
    wide = {
        n: part(case, n, b, h if n in ("q", "o", "dout") else hk).astype(np.float64)
        for n in ("q", "k", "v", "o", "dout")
    }
    q, k, v, o, do = (wide[n] for n in ("q", "k", "v", "o", "dout"))
    nq, nk = len(q), len(k)
    i, j = np.arange(nq)[:, None], np.arange(nk)[None]
    delta = 0 if case.top_left else nk - nq
    seen = np.ones((nq, nk), bool)
    if case.right is not None:
        seen &= j <= i + delta + case.right
    if case.left is not None:
        seen &= (j >= i + delta - case.left) | (j < case.sink)
    with np.errstate(all="ignore"):
        s = np.float64(np.float32(case.scale)) * np.einsum("id,jd->ij", q, k)
        slope = np.ones_like(s)
        if case.softcap:
            t = np.tanh(s / case.softcap)
            s, slope = case.softcap * t, 1 - t**2
        if case.bias:
            bias = d["bias"][b % case.bias[0], h % case.bias[1], :nq, :nk].astype(np.float64)
            s, seen = s + bias, seen & ~np.isneginf(bias)
        if case.alibi:
            s = s - d["alibi_slopes"][b % case.alibi, h] * np.abs(i + delta - j)
        lse = part(case, "lse", b, h).astype(np.float64)[:, None]
        p = np.where(seen, np.exp(s - np.where(np.isneginf(lse), np.inf, lse)), 0)
        if case.large:  # nothing is left of the sum in such an LSE
            p = formula(replace(case, dropout=0.0), b, h).weights
        keep = np.ones_like(p)
        if case.threshold:
            ones = np.ones((nq, nk), np.uint64)
            words = philox([(j >> 2) * ones, i * ones, (b * case.heads + h) * ones, case.offset * ones], case.seed)
            word = np.take_along_axis(np.stack(words), ((j & 3) + 0 * i)[None], 0)[0]
            keep = (word >= case.threshold) * (WORD / (WORD - case.threshold))
        dp = np.where(keep > 0, np.einsum("id,jd->ij", do, v) * keep, 0)
        mean = (do * o).sum(axis=1)[:, None]
        ds = np.where(p == 0, 0, p * (dp - mean))
        parts = np.sqrt(do**2 @ (v**2).T) * keep  # of dP before they cancel
        spread = np.where(p == 0, 0, p * (np.maximum(parts, np.abs(dp)) + np.linalg.norm(do * o, axis=1)[:, None]))
        scale = float(np.float32(case.scale))
        used = np.where(p == 0, 0, p * keep)
        for name, at, terms, sizes_of, rows in (
            ("dq", h, ds * slope * scale, spread * slope * scale, k),
            ("dk", hk, (ds * slope * scale).T, (spread * slope * scale).T, q),
            ("dv", hk, used.T, used.T, do),
        ):
            part(values, name, b, at)[...] += _product(terms, rows)
            part(sizes, name, b, at)[...] += np.nan_to_num(sizes_of) ** 2 @ np.nan_to_num((rows**2).sum(axis=1))
        if case.dbias:
            at = (b % case.bias[0], h % case.bias[1], slice(nq if case.bias_rows else 1), slice(nk))
            values.data["dbias"][at] += ds if case.bias_rows else ds.sum(axis=0)
            squares = np.nan_to_num(spread) ** 2
            sizes.data["dbias"][at] += squares if case.bias_rows else squares.sum(axis=0)


def _product(terms: Array, rows: Array) -> Array:
    """terms @ rows, where a term of 0 adds nothing even if its row is NaN."""
    clean = np.where(np.isfinite(rows), rows, 0)
    out = terms @ clean
    for n in np.flatnonzero(~np.isfinite(rows).all(axis=1)):
        used = terms[:, n] != 0
        out[used] += terms[used, n, None] * (rows[n] - clean[n])
    return out


BUDGET = {"fp32": 8e-6, "fp16": 2**-9, "bf16": 2**-6}
"""Largest error of a row, relative to the size of its parts."""


def backward_complaints(case: BackwardCase) -> list[str]:
    """Errors in the gradients in ``case.data``."""
    out = []
    for name, want in gradients(case).items():
        got = case.data[name].astype(np.float64)
        if (np.isfinite(got) != np.isfinite(want.value)).any():
            at = np.argwhere(np.isfinite(got) != np.isfinite(want.value))
            out.append(f"{name}: {len(at)} elements are finite or not, unlike the formula's; first {at[0]}")
        with np.errstate(all="ignore"):
            error = np.where(np.isfinite(want.value) & np.isfinite(got), np.abs(got - want.value), 0)
            rounding = np.where(np.isfinite(want.value), np.abs(want.value), 0)
        dim = 1 if name == "dbias" else error.shape[-1]
        if name != "dbias":
            error, rounding = np.linalg.norm(error, axis=-1), np.linalg.norm(rounding, axis=-1)
        budget = BUDGET[case.dtype] + score_error(case)
        allowed = budget * (want.parts + rounding) + (TINY[case.dtype] + 1e-37) * math.sqrt(dim)
        wrong = error > allowed
        if wrong.any():
            at = np.unravel_index((error / allowed).argmax(), error.shape)
            out.append(f"{name}{[int(n) for n in at]}: {error[at]:.3g}, allowed {allowed[at]:.3g}; {wrong.sum()} rows")
    return out + [text for name in ("dq", "dk", "dv") for text in _written_outside(case, name)]


def _written_outside(case: BackwardCase, name: str) -> list[str]:
    """An error if a guard or a gap of a gradient stops being NaN."""
    buffer, inside = case.data[f"{name}_buffer"], np.zeros(case.data[f"{name}_buffer"].size, bool)
    view = case.data[name]
    base = (view.ctypes.data - buffer.ctypes.data) // view.itemsize
    index = np.full(view.shape, base)
    for axis, (n, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        shape = [1] * view.ndim
        shape[axis] = n
        index = index + (np.arange(n) * (stride // view.itemsize)).reshape(shape)
    inside[index.ravel()] = True
    return [] if np.isnan(buffer[~inside].astype(np.float32)).all() else [f"{name}: written outside"]
