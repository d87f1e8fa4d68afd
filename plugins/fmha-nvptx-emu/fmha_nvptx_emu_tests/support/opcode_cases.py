"""One case for each form of an opcode: the instruction, the kinds of its inputs, its result, and a formula in numpy.

The formulas are written from the PTX ISA document, in types that hold every intermediate value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
U16, U32, U64, S16, S32, S64, F16, F32, F64 = (
    np.uint16, np.uint32, np.uint64, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64,
)  # fmt: skip
OF = {
    "u16": U16, "s16": S16, "b16": U16, "u32": U32, "s32": S32, "b32": U32, "u64": U64, "s64": S64, "b64": U64,
    "f32": F32, "f64": F64,
}  # fmt: skip
REGISTER = {2: "h", 4: "r", 8: "rd"}


@dataclass(frozen=True)
class OpcodeCase:
    """``ulps``: how far a float result may be from the formula's; 0: equal bits, NaNs apart."""

    text: str
    inputs: tuple[Any, ...]
    result: str
    dtype: Any
    formula: Callable[..., Any]
    ulps: int = 0

    @property
    def root(self) -> str:
        return self.text.partition(".")[0]


def exact(x: Array) -> Array:
    """Integers without a size."""
    return x.astype(object)


def wrapped(values: Any, dtype: Any) -> Array:
    """Integers modulo 2^n, as two's complement."""
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.array([int(v) % (1 << bits) for v in values], np.dtype(f"u{bits // 8}"))
    return unsigned.view(dtype)


def _integer(op: str, names: str, count: int, formula: Callable[..., Any]) -> Iterator[OpcodeCase]:
    for name in names.split():
        dtype = OF[name]

        def made(*a: Array, f: Callable[..., Any] = formula, dtype: Any = dtype) -> Array:
            return wrapped(f(*(exact(x) for x in a)), dtype)

        operands = ", ".join("ABC"[:count])
        yield OpcodeCase(
            f"{op}.{name} D, {operands}", (dtype,) * count, REGISTER[np.dtype(dtype).itemsize], dtype, made
        )


def _truncated(a: Array, b: Array) -> Array:
    return np.array(
        [(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else -1 for x, y in zip(a, b, strict=True)], object
    )


def _remainder(a: Array, b: Array) -> Array:
    return np.array([x - y * q if y else x for x, y, q in zip(a, b, _truncated(a, b), strict=True)], object)


def _integers() -> Iterator[OpcodeCase]:
    all_sizes = "u16 s16 u32 s32 u64 s64"
    yield from _integer("add", all_sizes, 2, lambda a, b: a + b)
    yield from _integer("sub", all_sizes, 2, lambda a, b: a - b)
    yield from _integer("mul.lo", all_sizes, 2, lambda a, b: a * b)
    yield from _integer("mad.lo", "u32 s32 u64 s64", 3, lambda a, b, c: a * b + c)
    yield from _integer("div", all_sizes, 2, _truncated)
    yield from _integer("rem", all_sizes, 2, _remainder)
    yield from _integer("min", all_sizes, 2, np.minimum)
    yield from _integer("max", all_sizes, 2, np.maximum)
    yield from _integer("min.relu", "s32", 2, lambda a, b: np.maximum(np.minimum(a, b), 0))
    yield from _integer("max.relu", "s32", 2, lambda a, b: np.maximum(np.maximum(a, b), 0))
    yield from _integer("abs", "s16 s32 s64", 1, abs)
    yield from _integer("neg", "s16 s32 s64", 1, lambda a: -a)
    yield from _integer("and", "b16 b32 b64", 2, lambda a, b: a & b)
    yield from _integer("or", "b16 b32 b64", 2, lambda a, b: a | b)
    yield from _integer("xor", "b16 b32 b64", 2, lambda a, b: a ^ b)
    yield from _integer("not", "b16 b32 b64", 1, lambda a: ~a)
    yield from _integer("cnot", "b16 b32 b64", 1, lambda a: np.array([int(x == 0) for x in a], object))
    for name in ("u32", "s32", "u64", "s64", "u16", "s16"):
        dtype, bits = OF[name], np.dtype(OF[name]).itemsize * 8

        def high(a: Array, b: Array, dtype: Any = dtype, bits: int = bits) -> Array:
            return wrapped([x * y >> bits for x, y in zip(exact(a), exact(b), strict=True)], dtype)

        yield OpcodeCase(f"mul.hi.{name} D, A, B", (dtype, dtype), REGISTER[bits // 8], dtype, high)
        if bits < 64:
            wide = OF[f"{name[0]}{2 * bits}"]

            def product(a: Array, b: Array, c: Any = 0, wide: Any = wide) -> Array:
                return wrapped(exact(a) * exact(b) + (exact(c) if isinstance(c, np.ndarray) else 0), wide)

            kind = REGISTER[bits // 4]
            yield OpcodeCase(f"mul.wide.{name} D, A, B", (dtype, dtype), kind, wide, product)
            yield OpcodeCase(f"mad.wide.{name} D, A, B, C", (dtype, dtype, wide), kind, wide, product)


def _shifted(left: bool, dtype: Any) -> Callable[[Array, Array], Array]:
    bits = np.dtype(dtype).itemsize * 8

    def shift(a: Array, n: Array) -> Array:
        by = [min(int(k), bits) for k in n]
        return wrapped([int(x) << k if left else int(x) >> k for x, k in zip(a, by, strict=True)], dtype)

    return shift


def _field(a: Array, at: Array, length: Array, bits: int, signed: bool) -> Array:
    out = []
    for x, p, n in zip(exact(a), at, length, strict=True):
        p, n, unsigned = int(p) & 255, int(n) & 255, int(x) % (1 << bits)
        last = min(p + n - 1, bits - 1)
        sign = signed and n > 0 and unsigned >> last & 1
        field = [unsigned >> (p + k) & 1 if k < n and p + k < bits else int(bool(sign)) for k in range(bits)]
        out.append(sum(bit << k for k, bit in enumerate(field)))
    return wrapped(out, S32 if signed and bits == 32 else S64 if signed else U32 if bits == 32 else U64)


def _inserted(f: Array, into: Array, at: Array, length: Array) -> Array:
    out = []
    for x, y, p, n in zip(exact(f), exact(into), at, length, strict=True):
        p, n = int(p) & 255, int(n) & 255
        bits = [int(x) >> (k - p) & 1 if p <= k < p + n else int(y) >> k & 1 for k in range(32)]
        out.append(sum(bit << k for k, bit in enumerate(bits)))
    return wrapped(out, U32)


def _permuted(a: Array, b: Array, selector: Array) -> Array:
    out = []
    for x, y, s in zip(a, b, selector, strict=True):
        pool = int(x).to_bytes(4, "little") + int(y).to_bytes(4, "little")
        picked = [(int(s) >> 4 * k) & 15 for k in range(4)]
        out.append(bytes((255 if pool[p & 7] & 128 else 0) if p & 8 else pool[p] for p in picked))
    return np.frombuffer(b"".join(out), "<u4")


def _bits() -> Iterator[OpcodeCase]:
    for name in ("b16", "b32", "b64"):
        yield OpcodeCase(
            f"shl.{name} D, A, B",
            (OF[name], "shift"),
            REGISTER[np.dtype(OF[name]).itemsize],
            OF[name],
            _shifted(True, OF[name]),
        )
    for name in ("u16", "s16", "u32", "s32", "u64", "s64", "b32"):
        yield OpcodeCase(
            f"shr.{name} D, A, B",
            (OF[name], "shift"),
            REGISTER[np.dtype(OF[name]).itemsize],
            OF[name],
            _shifted(False, OF[name]),
        )
    for name in ("u32", "s32", "u64", "s64"):
        dtype, bits = OF[name], np.dtype(OF[name]).itemsize * 8

        def field(a: Array, p: Array, n: Array, bits: int = bits, signed: bool = name[0] == "s") -> Array:
            return _field(a, p, n, bits, signed)

        yield OpcodeCase(f"bfe.{name} D, A, B, C", (dtype, "shift", "shift"), REGISTER[bits // 8], dtype, field)
    yield OpcodeCase("bfi.b32 D, A, B, C, E", (U32, U32, "shift", "shift"), "r", U32, _inserted)
    yield OpcodeCase("prmt.b32 D, A, B, C", (U32, U32, U32), "r", U32, _permuted)
    for table in (0x96, 0xE8, 0x01, 0xCA):

        def lop(a: Array, b: Array, c: Array, table: int = table) -> Array:
            index = [
                ((int(x) >> k & 1) << 2 | (int(y) >> k & 1) << 1 | int(z) >> k & 1)
                for x, y, z in zip(a, b, c, strict=True)
                for k in range(32)
            ]
            bit = np.array([table >> i & 1 for i in index], np.uint64).reshape(-1, 32)
            return (bit << np.arange(32, dtype=np.uint64)).sum(1).astype(U32)

        yield OpcodeCase(f"lop3.b32 D, A, B, C, {table:#x}", (U32, U32, U32), "r", U32, lop)
    for side in "lr":
        for mode in ("wrap", "clamp"):

            def funnel(a: Array, b: Array, c: Array, side: str = side, mode: str = mode) -> Array:
                by = [int(n) & 31 if mode == "wrap" else min(int(n), 32) for n in c]
                both = [int(y) << 32 | int(x) for x, y in zip(a, b, strict=True)]
                return wrapped([v << n >> 32 if side == "l" else v >> n for v, n in zip(both, by, strict=True)], U32)

            yield OpcodeCase(f"shf.{side}.{mode}.b32 D, A, B, C", (U32, U32, "shift"), "r", U32, funnel)
    for name in ("b32", "b64"):
        dtype, bits = OF[name], np.dtype(OF[name]).itemsize * 8
        yield OpcodeCase(
            f"popc.{name} D, A", (dtype,), "r", U32, lambda a: np.array([int(x).bit_count() for x in a], U32)
        )
        yield OpcodeCase(
            f"clz.{name} D, A",
            (dtype,),
            "r",
            U32,
            lambda a, bits=bits: np.array([bits - int(x).bit_length() for x in a], U32),
        )

        def reverse(a: Array, bits: int = bits, dtype: Any = dtype) -> Array:
            return np.array([int(f"{int(x):0{bits}b}"[::-1], 2) for x in a], dtype)

        yield OpcodeCase(f"brev.{name} D, A", (dtype,), REGISTER[bits // 8], dtype, reverse)


def flush(x: Array) -> Array:
    """Subnormal binary32 numbers as zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(F32).tiny, np.copysign(F32(0), x), x).astype(F32)


def _rounded(f: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *a: np.asarray(f(*(x.astype(np.longdouble) for x in a))).astype(F32)


def _pick(larger: bool, nan: bool) -> Callable[[Array, Array], Array]:
    def pick(a: Array, b: Array) -> Array:
        wins = np.maximum(a, b) if larger else np.minimum(a, b)
        zeros = (a == 0) & (b == 0)
        signed = np.where(np.signbit(a) == larger, b, a)
        wins = np.where(zeros, signed, wins)
        one = np.where(np.isnan(a), b, np.where(np.isnan(b), a, wins))
        return np.where(np.isnan(a) | np.isnan(b), np.nan, wins) if nan else one

    return pick


def _floats() -> Iterator[OpcodeCase]:
    two = (F32, F32)
    for op, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
        yield OpcodeCase(f"{op}.f32 D, A, B", two, "f", F32, f)
        yield OpcodeCase(f"{op}.rn.ftz.f32 D, A, B", two, "f", F32, lambda a, b, f=f: flush(f(flush(a), flush(b))))
        yield OpcodeCase(f"{op}.f64 D, A, B", (F64, F64), "d", F64, f)
        yield OpcodeCase(
            f"{op}.f16x2 D, A, B",
            ("halves", "halves"),
            "r",
            F16,
            lambda a, b, f=f: f(a.view(F16).astype(F64), b.view(F16).astype(F64)).astype(F16),
        )
        yield OpcodeCase(
            f"{op}.rn.f32x2 D, A, B", ("pairs", "pairs"), "rd", F32, lambda a, b, f=f: f(a.view(F32), b.view(F32))
        )
        yield OpcodeCase(
            f"{op}.ftz.f32x2 D, A, B", ("pairs", "pairs"), "rd", F32,
            lambda a, b, f=f: flush(f(flush(a.view(F32)), flush(b.view(F32)))),
        )  # fmt: skip
    yield OpcodeCase("add.sat.f32 D, A, B", two, "f", F32, lambda a, b: np.nan_to_num(np.clip(a + b, 0, 1), nan=0.0))
    yield OpcodeCase("div.rn.f32 D, A, B", two, "f", F32, np.divide)
    yield OpcodeCase("div.full.f32 D, A, B", two, "f", F32, np.divide, 2)
    for op, larger in (("min", False), ("max", True)):
        yield OpcodeCase(f"{op}.f32 D, A, B", two, "f", F32, _pick(larger, False))
        yield OpcodeCase(f"{op}.NaN.f32 D, A, B", two, "f", F32, _pick(larger, True))
        pick = _pick(larger, False)
        yield OpcodeCase(f"{op}.ftz.f32 D, A, B", two, "f", F32, lambda a, b, p=pick: p(flush(a), flush(b)))
        for nan in ("", ".NaN"):
            pick = _pick(larger, bool(nan))
            yield OpcodeCase(f"{op}{nan}.f32 D, A, B, C", (F32,) * 3, "f", F32, lambda a, b, c, p=pick: p(p(a, b), c))
    yield OpcodeCase("fma.rn.f32 D, A, B, C", ("near", "near", "near"), "f", F32, _rounded(lambda a, b, c: a * b + c))
    yield OpcodeCase("fma.rn.f32x2 D, A, B, C", ("pairs",) * 3, "rd", F32,
               lambda a, b, c: _rounded(lambda x, y, z: x * y + z)(a.view(F32), b.view(F32), c.view(F32)))  # fmt: skip
    yield OpcodeCase("fma.rn.f16x2 D, A, B, C", ("halves", "halves", "halves"), "r", F16,
               lambda a, b, c: (a.view(F16).astype(F64) * b.view(F16).astype(F64) + c.view(F16).astype(F64)).astype(F16))  # fmt: skip
    for kind, widened in (
        ("f16", lambda a: a.view(F16).astype(F32)),
        ("bf16", lambda a: (a.astype(U32) << 16).view(F32)),
    ):
        for op, f in (("add", np.add), ("sub", np.subtract)):
            yield OpcodeCase(
                f"{op}.rn.f32.{kind} D, A, B", ("half", F32), "f", F32, lambda a, c, f=f, w=widened: f(w(a), c)
            )
        yield OpcodeCase(f"fma.rn.sat.f32.{kind} D, A, B, C", ("half", "half", "near"), "f", F32,
                   lambda a, b, c, w=widened: np.nan_to_num(np.clip(_rounded(lambda x, y, z: x * y + z)(w(a), w(b), c), 0, 1), nan=0.0))  # fmt: skip
        yield OpcodeCase(f"fma.rn.f32.{kind} D, A, B, C", ("half", "half", "near"), "f", F32,
                   lambda a, b, c, w=widened: _rounded(lambda x, y, z: x * y + z)(w(a), w(b), c))  # fmt: skip
    yield OpcodeCase("neg.f32 D, A", (F32,), "f", F32, np.negative)
    yield OpcodeCase("abs.f32 D, A", (F32,), "f", F32, np.abs)
    yield OpcodeCase("neg.ftz.f32 D, A", (F32,), "f", F32, lambda a: -flush(a))
    yield OpcodeCase("rcp.rn.f32 D, A", (F32,), "f", F32, lambda a: F32(1) / a)
    yield OpcodeCase("sqrt.rn.f32 D, A", (F32,), "f", F32, np.sqrt)
    approximations = {
        "rcp": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "sqrt": np.sqrt,
        "ex2": np.exp2,
        "lg2": np.log2,
    }
    for op, f in approximations.items():
        yield OpcodeCase(f"{op}.approx.ftz.f32 D, A", (F32,), "f", F32, lambda a, f=f: flush(_rounded(f)(flush(a))), 1)
    for op, f in (("tanh", np.tanh), ("sin", np.sin), ("cos", np.cos), ("ex2", np.exp2)):
        yield OpcodeCase(f"{op}.approx.f32 D, A", ("near",), "f", F32, _rounded(f), 1)


def _comparisons() -> Iterator[OpcodeCase]:
    relations = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    for name, f in relations.items():
        for kind in ("s32", "u32", "s64", "u16", "s16"):
            yield OpcodeCase(f"setp.{name}.{kind} D, A, B", (OF[kind], OF[kind]), "p", bool, f)
        ordered = lambda a, b, f=f: f(a, b) & ~(np.isnan(a) | np.isnan(b))  # noqa: E731 - one line of a table
        yield OpcodeCase(f"setp.{name}.f32 D, A, B", (F32, F32), "p", bool, ordered)
        yield OpcodeCase(
            f"setp.{name}.ftz.f32 D, A, B", (F32, F32), "p", bool, lambda a, b, g=ordered: g(flush(a), flush(b))
        )
        yield OpcodeCase(
            f"setp.{name}u.f32 D, A, B", (F32, F32), "p", bool, lambda a, b, f=f: f(a, b) | np.isnan(a) | np.isnan(b)
        )
        for kind in ("s32", "u32", "s64", "u16", "s16"):
            yield OpcodeCase(
                f"set.{name}.u32.{kind} D, A, B", (OF[kind],) * 2, "r", U32, lambda a, b, f=f: _ones(f(a, b))
            )
        yield OpcodeCase(f"set.{name}.u32.f32 D, A, B", (F32, F32), "r", U32, lambda a, b, g=ordered: _ones(g(a, b)))
        yield OpcodeCase(f"set.{name}.f32.s32 D, A, B", (S32, S32), "f", F32, lambda a, b, f=f: f(a, b).astype(F32))
        for to, one in (("u32", 0xFFFF), ("f16x2", 0x3C00)):
            yield OpcodeCase(f"set.{name}.{to}.f16x2 D, A, B", (U32, U32), "r", U32, lambda a, b, g=ordered, one=one: _halves(a, b, g, one))  # fmt: skip
    yield OpcodeCase("set.leu.u32.f16x2 D, A, B", (U32, U32), "r", U32, lambda a, b: _halves(a, b, lambda x, y: ~(x > y), 0xFFFF))  # fmt: skip
    yield OpcodeCase("setp.lt.and.s32 D, A, B, C", (S32, S32, bool), "p", bool, lambda a, b, c: (a < b) & c)
    yield OpcodeCase("setp.lt.or.s32 D, A, B, !C", (S32, S32, bool), "p", bool, lambda a, b, c: (a < b) | ~c)
    yield OpcodeCase("setp.num.f32 D, A, B", (F32, F32), "p", bool, lambda a, b: ~(np.isnan(a) | np.isnan(b)))
    yield OpcodeCase("selp.b32 D, A, B, C", (U32, U32, bool), "r", U32, lambda a, b, c: np.where(c, a, b))
    yield OpcodeCase("selp.b64 D, A, B, !C", (U64, U64, bool), "rd", U64, lambda a, b, c: np.where(c, b, a))
    yield OpcodeCase("and.pred D, A, !B", (bool, bool), "p", bool, lambda a, b: a & ~b)
    yield OpcodeCase("xor.pred D, A, B", (bool, bool), "p", bool, np.logical_xor)
    yield OpcodeCase("not.pred D, A", (bool,), "p", bool, np.logical_not)


def _ones(truth: Array) -> Array:
    return np.where(truth, np.uint32(0xFFFFFFFF), np.uint32(0))


def _halves(a: Array, b: Array, relation: Callable[[Array, Array], Array], truth: int) -> Array:
    """A relation of both f16 halves of words; each half that holds becomes ``truth``."""
    parts = [relation(*((word >> shift).astype(np.uint16).view(np.float16) for word in (a, b))) for shift in (0, 16)]
    return sum(
        (np.where(part, np.uint32(truth << s), np.uint32(0)) for part, s in zip(parts, (0, 16), strict=True)), U32(0)
    )


def _saturated(x: Array, dtype: Any, way: Callable[[Any], Any]) -> Array:
    limits = np.iinfo(dtype)
    whole = [
        0 if np.isnan(v) else limits.min if v == -np.inf else limits.max if v == np.inf else int(way(float(v)))
        for v in x
    ]
    return np.array([min(max(v, int(limits.min)), int(limits.max)) for v in whole], dtype)


def _moves() -> Iterator[OpcodeCase]:
    for name in ("b16", "b32", "b64"):
        yield OpcodeCase(f"mov.{name} D, A", (OF[name],), REGISTER[np.dtype(OF[name]).itemsize], OF[name], lambda a: a)
    yield OpcodeCase("mov.b64 D, {A, B}", (U32, U32), "rd", U64, lambda a, b: a.astype(U64) | b.astype(U64) << U64(32))
    yield OpcodeCase("mov.b32 D, {A, B}", (U16, U16), "r", U32, lambda a, b: a.astype(U32) | b.astype(U32) << U32(16))
    yield OpcodeCase("mov.b64 {_, D}, A", (U64,), "r", U32, lambda a: (a >> U64(32)).astype(U32))
    yield OpcodeCase("cvta.to.global.u64 D, A", (U64,), "rd", U64, lambda a: a)
    for to in ("u16", "s16", "u32", "s32", "u64", "s64"):
        for source in ("u16", "s16", "u32", "s32", "u64", "s64"):
            if to != source:
                yield OpcodeCase(f"cvt.{to}.{source} D, A", (OF[source],), REGISTER[np.dtype(OF[to]).itemsize], OF[to],
                           lambda a, to=to: wrapped(exact(a), OF[to]))  # fmt: skip
    for source in ("u8", "s8", "u16", "s16", "u32", "s32"):  # the register has 64 bits and is chopped
        yield OpcodeCase(f"cvt.s64.{source} D, A", (U64,), "rd", S64, lambda a, t=source: a.astype(f"{t[0].replace('s', 'i')}{int(t[1:]) // 8}").astype(S64))  # fmt: skip
    yield OpcodeCase("cvt.u32.s16 D, A", (U64,), "r", U32, lambda a: a.astype(S16).astype(U32))
    yield OpcodeCase("cvt.sat.s16.s32 D, A", (S32,), "h", S16, lambda a: np.clip(a, -32768, 32767).astype(S16))
    for way, f in (("rzi", np.trunc), ("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil)):
        yield OpcodeCase(f"cvt.{way}.s32.f32 D, A", (F32,), "r", S32, lambda a, f=f: _saturated(a, S32, f))
        yield OpcodeCase(f"cvt.{way}.f32.f32 D, A", (F32,), "f", F32, f)
    yield OpcodeCase("cvt.rzi.u32.f32 D, A", (F32,), "r", U32, lambda a: _saturated(a, U32, np.trunc))
    yield OpcodeCase("cvt.rn.f32.s32 D, A", (S32,), "f", F32, lambda a: a.astype(F32))
    yield OpcodeCase("cvt.rn.f32.u64 D, A", (U64,), "f", F32, lambda a: a.astype(F32))
    yield OpcodeCase("cvt.f32.f16 D, A", ("half",), "f", F32, lambda a: a.view(F16).astype(F32))
    yield OpcodeCase("cvt.f64.f32 D, A", (F32,), "d", F64, lambda a: a.astype(F64))
    yield OpcodeCase("cvt.rn.f32.f64 D, A", (F64,), "f", F32, lambda a: a.astype(F32))
    yield OpcodeCase("cvt.rn.f16.f32 D, A", (F32,), "h", F16, lambda a: a.astype(F16))
    yield OpcodeCase(
        "cvt.rn.f16x2.f32 D, A, B", (F32, F32), "r", F16, lambda a, b: np.stack([b, a], 1).astype(F16).reshape(-1)
    )
    yield OpcodeCase("cvt.rn.bf16x2.f32 D, A, B", (F32, F32), "r", "bf16", lambda a, b: np.stack([b, a], 1).reshape(-1))


def cases() -> tuple[OpcodeCase, ...]:
    """Every case."""
    return (*_integers(), *_bits(), *_floats(), *_comparisons(), *_moves())
