"""Seeded inputs. Every tensor has its own stream, so Q, K and V are never equal by accident.

The words come from numpy's PCG64 bit generator seeded with (seed, crc32(tensor name)), whose stream numpy
keeps stable. This module turns them into numbers by integer arithmetic and one exact conversion, so the values do
not depend on numpy's version, the C library or the platform. Numbers are made in float32 and rounded once
(nearest-even) to the storage type.

============  ==========================================================================================
normal        bell-shaped, mean 0, variance 1 (sum of four uniform 16-bit numbers, so within 3.5)
sparse_int    integers -2..2, five of eight zero: sums are exact, many scores are equal
coded         Q and K as normal; V encodes the position of its own row (``coded``), also where it is in K
ties          Q small integers, K rows out of four: every row of scores holds many equal maxima. Where V is in K, this
              concerns the other columns, and Q is 0 in V's
large         scores with a standard deviation of 24: overflow without a running maximum, nearly one-hot
means         Q is 0, so O is the mean of the visible rows of V, which is coded (``means``)
pointer       every query selects one visible key, so O is that key's row of V, which is coded (``pointer``; in K, it is as K)
============  ==========================================================================================

Rows of K and V that hold no key are NaN: the padding and the rest of a cache, unused pages, and slots for appended keys. In
int8 and fp4, which have no NaN, they hold the largest magnitude. The padding of a packed bias is NaN too.

An int8 cache with scales holds 32 steps for 1, and its scales are near 1/32. MX types are made in float32 and converted (``mx``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from zlib import crc32

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import CLOSED_FILLS, FILLS, Alibi, QScale
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import ROTARY_TABLES, Element, Role, TensorShape, page_count, pages_of, shapes_of
from fmha_cli.oracle.coded import UNUSED, code, stored_ids
from fmha_cli.oracle.mx import SCALED, choose_form, encode_tensor
from fmha_cli.oracle.pointer import pointing
from fmha_cli.oracle.tensors import Array, Inputs, numpy_dtype, packed_bias, round_to

F32 = npt.NDArray[np.float32]
CustomFill = Callable[[tuple[int, ...], np.random.Generator], F32]
"""A plugin's fill: (shape, generator) -> float32 values of one tensor."""

CODED = ("coded", *CLOSED_FILLS)
"""Fills whose V is coded."""

INT8_STEPS = 32
"""Steps of int8 for a filled number of 1, where scales undo it: 127 steps are nearly 4 standard deviations."""
_CHUNK = 1 << 18
_LARGE_STD = 24.0
_EVEN = np.uint64(0x0000FFFF0000FFFF)
_LOW = np.uint64(0xFFFFFFFF)
_SUM_MEAN = 2 * 65535
_SUM_STD = ((65536**2 - 1) / 3) ** 0.5


def generator(seed: int, name: str) -> np.random.PCG64:
    """The bit stream of one tensor."""
    return np.random.PCG64([seed, crc32(name.encode())])


def fill(
    problem: Problem,
    kind: str = "normal",
    seed: int = 0,
    *,
    given: Inputs | None = None,
    custom: Mapping[str, CustomFill] | None = None,
) -> dict[str, Array]:
    """Every input of ``problem`` (``Role.INPUT`` and ``INOUT``), except o and lse of a backward-only problem, which
    only a forward pass can compute. Tensors in ``given`` are passed through.

    Raises:
        UsageError: E008, no such fill.
        UnsupportedError: T001, tensors without a form.
    """
    custom = custom or {}
    known = [*FILLS, *CLOSED_FILLS, *custom]
    if kind not in known:
        raise UsageError(f"--fill {kind}: no such fill", code="E008", where="--fill", help=f"one of {', '.join(known)}")
    shapes = {n: s for n, s in shapes_of(problem).items() if s.role is not Role.OUTPUT and n not in ("o", "lse")}
    out: dict[str, Array] = {name: (given or {})[name] for name in shapes if name in (given or {})}
    if problem.paged and "block_table" not in out:
        out["block_table"] = block_table(problem, seed)
    for name in shapes:
        if name not in out and not name.endswith("_scale"):
            shape = choose_form(problem, name)
            if kind in CODED and name in ("v", "v_new"):
                out[name] = _make_coded(problem, name, shape, out)
            else:
                made = pointing(problem, name, seed, out.get("block_table")) if kind == "pointer" else None
                out[name] = _tensor(problem, kind, seed, name, shape, custom) if made is None else made
                if problem.v_in_k and kind in CODED and made is None and name in ("k", "k_new"):
                    out[name][..., : problem.hdim_v] = _make_coded(problem, name, shape, out)
            if problem.dtype.is_mx and name in SCALED:
                out[name], out[f"{name}_scale"] = encode_tensor(problem, name, out[name])
            _poison(problem, name, out)
    return out


def _make_coded(problem: Problem, name: str, shape: TensorShape, made: Inputs) -> Array:
    """Codes of the positions of the values in v, v_new, or the columns of k and k_new that are V."""
    ids = stored_ids(problem, name, made.get("block_table"))
    return round_to(code(ids, problem.hdim_v) * _steps(problem, shape), shape.dtype)


def _tensor(
    problem: Problem, kind: str, seed: int, name: str, shape: TensorShape, custom: Mapping[str, CustomFill]
) -> Array:
    bits = generator(seed, name)
    if name == "alibi_slopes":
        if problem.alibi is Alibi.STANDARD:
            return standard_slopes(problem.heads)
        return _uniform(bits, shape.elements).reshape(shape.shape)
    if (
        name in ROTARY_TABLES
    ):  # of any angles: cos = (1 - t^2) / (1 + t^2), sin = 2t / (1 + t^2), which every platform rounds alike
        t = _uniform(generator(seed, "rotary"), shape.elements).astype(np.float64).reshape(shape.shape) * 4 - 2
        return ((1 - t * t if name == ROTARY_TABLES[0] else 2 * t) / (1 + t * t)).astype(np.float32)
    if name.endswith("_descale"):
        whole = shapes_of(problem)["q" if name == "q_descale" else "k"].dtype is Element.INT8
        steps = np.float32(1 / INT8_STEPS if whole else 1)
        return ((_uniform(bits, shape.elements) + np.float32(0.5)) * steps).reshape(shape.shape)
    if kind == "means" and name == "q":
        return np.zeros(shape.shape, numpy_dtype(shape.dtype))
    if kind in custom:
        return round_to(custom[kind](shape.shape, np.random.Generator(bits)), shape.dtype)
    if kind == "ties" and name in ("k", "k_new"):
        # k_new uses the rows of k, so appended keys tie with cached ones
        few = _integers(generator(seed, "k"), 4 * shape.shape[-1]).reshape(4, -1)
        choice = bits.random_raw(shape.elements // max(1, shape.shape[-1])) & np.uint64(3)
        tied = few[choice.astype(np.int64)].reshape(shape.shape)
        if problem.v_in_k:  # rows of V differ, so only the other columns tie
            tied[..., : problem.hdim_v] = normals(bits, shape.elements).reshape(shape.shape)[..., : problem.hdim_v]
        return round_to(tied * _steps(problem, shape), shape.dtype)
    integers = kind == "sparse_int" or (kind == "ties" and name in ("q", "bias", "sink_logits"))
    factor = _factor(problem, kind, name) * _steps(problem, shape)
    out = _fill_chunks(bits, shape, _integers if integers else normals, factor)
    if kind == "ties" and name == "q" and problem.v_in_k:
        out[..., : problem.hdim_v] = 0
    return out


def _steps(problem: Problem, shape: TensorShape) -> float:
    """The factor of numbers that become integers, which their scale divides again."""
    return INT8_STEPS if shape.dtype is Element.INT8 and problem.qscale is not QScale.NONE else 1


def standard_slopes(heads: int) -> F32:
    """The standard ALiBi slopes, (heads,) fp32.

    For n a power of two they are 2^(-8h/n), h = 1..n. For other n they are those of n' = 2^floor(log2 n), then every
    second one of 2n'.

    Source: Press et al., "Train Short, Test Long" (2021), ``get_slopes`` of the authors' fairseq fork.
    """
    below = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-8 * h / below) for h in range(1, below + 1)]
    more = [2.0 ** (-8 * h / (2 * below)) for h in range(1, 2 * (heads - below), 2)]
    return np.array(first + more, dtype=np.float32)


def _factor(problem: Problem, kind: str, name: str) -> float:
    if kind != "large":
        return 1.0
    if name in ("q", "k", "k_new"):
        spread = abs(problem.scale) * sqrt(problem.hdim)
        return min(64.0, max(1.0, sqrt(_LARGE_STD / spread))) if spread > 0 else 1.0
    return 8.0 if name in ("bias", "sink_logits") else 1.0


def _fill_chunks(
    bits: np.random.PCG64, shape: TensorShape, make: Callable[[np.random.PCG64, int], F32], factor: float
) -> Array:
    out = np.empty(shape.elements, dtype=numpy_dtype(shape.dtype))
    for start in range(0, shape.elements, _CHUNK):
        end = min(start + _CHUNK, shape.elements)
        out[start:end] = round_to(make(bits, end - start) * np.float32(factor), shape.dtype)
    return out.reshape(shape.shape)


def normals(bits: np.random.PCG64, count: int) -> F32:
    """Bell-shaped numbers, one 64-bit word each: the sum of its four 16-bit parts (Irwin-Hall), standardised."""
    words = bits.random_raw(count)
    pairs = (words & _EVEN) + ((words >> np.uint64(16)) & _EVEN)
    sums = (pairs & _LOW) + (pairs >> np.uint64(32))
    out: F32 = (sums.astype(np.int64) - _SUM_MEAN).astype(np.float32)
    return out * np.float32(1 / _SUM_STD)


def _integers(bits: np.random.PCG64, count: int) -> F32:
    """Integers -2..2; five of eight are zero."""
    table = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -2, -1, -1, 1, 1, 2], dtype=np.float32)
    chosen: F32 = table[(bits.random_raw(count) >> np.uint64(60)).astype(np.int64)]
    return chosen


def _uniform(bits: np.random.PCG64, count: int) -> F32:
    """Numbers in (0, 1], multiples of 2^-24."""
    return ((bits.random_raw(count) >> np.uint64(40)) + np.uint64(1)).astype(np.float32) * np.float32(2**-24)


def block_table(problem: Problem, seed: int) -> npt.NDArray[np.int32]:
    """(batch, max_pages) int32: a seeded permutation of the pages, -1 unused."""
    out = np.full(shapes_of(problem)["block_table"].shape, -1, dtype=np.int32)
    order = np.argsort(generator(seed, "block_table").random_raw(page_count(problem)), kind="stable")
    used = 0
    for b, length in enumerate(problem.key_lengths()):
        pages = pages_of(length, problem.kv_cache.page)
        out[b, :pages] = order[used : used + pages]
        used += pages
    return out


def _poison(problem: Problem, name: str, tensors: dict[str, Array]) -> None:
    """Set the unused elements to NaN, or to the largest magnitude."""
    if name == "bias" and (used := packed_bias(problem)) is not None:
        tensors[name][~used] = np.nan
    elif name in ("k", "v") and problem.cache_seqlens is not None:
        unused = stored_ids(problem, name, tensors.get("block_table")) == UNUSED
        values = tensors[name]
        values[unused] = {Element.INT8: -128, Element.FP4_E2M1: 6}.get(shapes_of(problem)[name].dtype, np.nan)
        if name == "k" and "k_scale" in tensors:
            tensors["k_scale"][unused] = np.nan
