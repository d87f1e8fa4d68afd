"""Tables of floating-point instructions with their formulas, and what runs them on every architecture and in every MODE.

A formula works on raw bits of one lane: ``formula(mode, *sources)`` gives the raw bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from float_reference import (
    BF16,
    DOWN,
    F16,
    F32,
    F64,
    UP,
    ZERO,
    Form,
    decode,
    encode,
    is_nan,
    scale,
)
from harness import ARCHS, WAVE32, Snippets

Words = npt.NDArray[np.uint32]
CDNA, RDNA, ALL = tuple(a for a in ARCHS if a not in WAVE32), WAVE32, ARCHS
B32, B16, B64 = Form(0, 31, 0, "bits"), Form(0, 15, 0, "bits"), Form(0, 63, 0, "bits")
HALVES, BRAINS, PAIR = Form(0, 31, 0, "halves"), Form(0, 31, 0, "brains"), Form(0, 63, 0, "pair")
"""Operands that are not one float: integers; two binary16, two bfloat16, two binary32 numbers."""
PARTS = {"halves": F16, "brains": BF16, "pair": F32}
EXEC = 0xF3A5_9C71_5B0F_E6D9


@dataclass(frozen=True)
class Mode:
    """MODE of a wave: rounding and denormals of binary32 and of the others, IEEE, DX10_CLAMP, FP16_OVFL."""

    arch: str
    round32: int = 0
    round16: int = 0
    flush32: bool = False
    flush16: bool = False
    ieee_bit: bool = True
    dx10_bit: bool = True
    overflow: bool = False

    @property
    def bits(self) -> int:
        """As in the register."""
        keep32, keep16 = (0 if self.flush32 else 3), (0 if self.flush16 else 3)
        return (self.round32 | self.round16 << 2 | keep32 << 4 | keep16 << 6 | self.dx10_bit << 8
                | self.ieee_bit << 9 | self.overflow << 23)  # fmt: skip

    @property
    def ieee(self) -> bool:
        """gfx12 always is."""
        return self.ieee_bit or self.arch == "gfx1201"

    @property
    def dx10(self) -> bool:
        """Clamp makes NaN zero: always on gfx12."""
        return self.dx10_bit or self.arch == "gfx1201"

    def round(self, form: Form) -> int:
        """The rounding mode of a format."""
        return self.round32 if form == F32 else self.round16

    def flushes(self, form: Form) -> bool:
        """Are denormals of this format zero?"""
        return self.flush32 if form == F32 else self.flush16

    def flushed(self, form: Form, bits: int) -> int:
        """bits, or the zero of their sign."""
        return flushed(form, bits) if self.flushes(form) else bits


def flushed(form: Form, bits: int) -> int:
    """A denormal becomes the zero of its sign."""
    return bits if bits & form.infinity else bits & form.sign


MODES = (
    {},
    {"flush32": True},
    {"flush16": True, "flush32": True, "ieee_bit": False, "dx10_bit": False},
    {"round32": UP, "round16": DOWN},
    {"round32": DOWN, "round16": ZERO},
    {"round32": ZERO, "round16": UP, "flush32": True},
)
"""The last ones take fewer values."""

Formula = Callable[..., int]


@dataclass(frozen=True)
class Case:
    """One vector instruction.

    Attributes:
        forms: of the destination, then of the sources; 16-bit ones may be halves of registers on gfx11 and gfx12.
        keeps: on CDNA too a 16-bit result leaves the other half of its register alone.
        accumulates: the destination is one more source, the last.
        modifiers: the VOP3 form takes neg, abs, clamp and omod: those are tried too.
        flush: denormals of the result are zero always (None: as MODE says), False: never.
        text: operands other than registers in order ("{0}, {1}, 0x3f000000").
        mods: what follows the operands. nan: any NaN does where one is expected.
    """

    name: str
    archs: tuple[str, ...]
    forms: tuple[Form, ...]
    formula: Formula
    keeps: bool = False
    accumulates: bool = False
    modifiers: bool = True
    flush: bool | None = None
    text: str = ""
    mods: str = ""
    nan: bool = False
    neg: int = 0
    abs: int = 0
    clamp: bool = False
    omod: int = 0
    modes: tuple[int, ...] = tuple(range(len(MODES)))

    @property
    def key(self) -> str:
        """A label that the assembler takes."""
        extra = f"{self.mods}{self.text}" + (
            f"_n{self.neg}a{self.abs}c{self.clamp:d}o{self.omod}" if self.edited else ""
        )
        return self.name + "".join(c if c.isalnum() else "_" for c in extra)

    @property
    def edited(self) -> bool:
        """Has it modifiers?"""
        return bool(self.neg or self.abs or self.clamp or self.omod)


def variants(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Each case, and with modifiers of sources and of the result where it takes them."""
    out = []
    for case in cases:
        out.append(case)
        if not case.modifiers:
            continue
        count = len(case.forms) - 1
        edited = replace(case, neg=0b101 & ((1 << count) - 1), abs=0b110 & ((1 << count) - 1), modes=(0, 2))
        out.append(replace(edited, clamp=case.forms[0] in (F16, F32, F64)))
        if case.forms[0] in (F16, F32, F64):
            out.append(replace(case, neg=0, abs=1, omod=3, modes=(0, 2)))
            out.append(replace(case, omod=1, modes=(2,)))
    return tuple(out)


# ---- values ----


@cache
def specials(form: Form) -> tuple[int, ...]:
    """Zeros, ones, ties, ends of the range, denormals, infinities, NaNs quiet and signalling, of both signs."""
    one = form.bias << form.mantissa
    sizes = [0, 1, 2, 3, (1 << form.mantissa) - 1, 1 << form.mantissa, (1 << form.mantissa) + 1, one - 1, one, one + 1,
             one + (1 << form.mantissa), one + (3 << (form.mantissa - 1)), one - (1 << form.mantissa), form.infinity - 1,
             form.infinity, form.infinity | form.quiet, form.infinity | form.quiet | 1, form.infinity | 1,
             form.infinity | (form.quiet - 1), form.infinity - (1 << form.mantissa)]  # fmt: skip
    for whole in (2, 3, 127, 255, 32767, 65504, 65519, 65520, 2**31 - 1, 2**31, 2**32 - 1):
        for half in (0, 1):
            code = encode(form, decode(F64, int(np.float64(whole + half / 2).view(np.uint64))))
            sizes.append(code)
    return tuple(s | sign for s in sizes for sign in (0, form.sign))


def draw(form: Form, seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Random codes: anything, near one, special ones."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 8, count)
    if part := PARTS.get(form.kind):
        low, high = (draw(part, seed + 5000 + k, count) for k in range(2))
        return low | high << np.uint64(part.width)
    if form.kind == "bits":
        out = rng.integers(0, 1 << 32, count, dtype=np.uint64) | (
            rng.integers(0, 1 << 32, count, dtype=np.uint64) << np.uint64(32)
        )
        small = rng.integers(-40, 40, count).astype(np.uint64)
        mask = np.uint64((1 << form.width) - 1)
        return np.where(kind < 3, small, out) & mask
    anything = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False) >> np.uint64(64 - form.width)
    spread = max(2, form.exponent - 2)
    field = form.bias + rng.integers(-spread, spread + 1, count)
    near = (
        (field.astype(np.uint64) << np.uint64(form.mantissa))
        | (anything & np.uint64((1 << form.mantissa) - 1))
        | (anything & np.uint64(form.sign))
    )
    special = rng.choice(np.array(specials(form), np.uint64), count)
    return np.where(kind < 2, anything, np.where(kind < 6, near, special))


# ---- running ----

ROWS = 4


def _wide(form: Form) -> int:
    return max(1, form.width // 32)


def _numbers(case: Case, row: int) -> list[int]:
    """First registers: the destination, then the sources."""
    return [8 + 4 * row, *(32 + 16 * k + 4 * row for k in range(len(case.forms) - 1))]


def _halves(case: Case, arch: str, row: int) -> list[int]:
    """The half that each 16-bit operand is in: chosen on gfx11 and gfx12, else the lower one."""
    if arch not in RDNA:
        return [0] * len(case.forms)
    return [(row >> k & 1) if form.width == 16 else 0 for k, form in enumerate(case.forms)]


def _register(case: Case, arch: str, number: int, form: Form, half: int) -> str:
    if form.width > 32:
        return f"v[{number}:{number + form.width // 32 - 1}]"
    return f"v{number}" + ((".l", ".h")[half] if form.width == 16 and arch in RDNA else "")


def text_of(case: Case, arch: str) -> str:
    """The snippet: ROWS instances on registers of their own."""
    lines = []
    for row in range(ROWS):
        operands = []
        for k, (number, form, half) in enumerate(
            zip(_numbers(case, row), case.forms, _halves(case, arch, row), strict=True)
        ):
            word = _register(case, arch, number, form, half)
            if k and case.abs >> (k - 1) & 1:
                word = f"|{word}|"
            if k and case.neg >> (k - 1) & 1:
                word = "-" + word
            operands.append(word)
        name = case.name + ("_e64" if case.edited and "_e64" not in case.name else "")
        if case.accumulates:
            operands.pop()
        line = case.text.format(*operands) if case.text else ", ".join(operands)
        tail = (" clamp" if case.clamp else "") + ("", " mul:2", " mul:4", " div:2")[case.omod]
        lines.append(f"{name} {line}{tail} {case.mods}")
    return "\n".join(lines)


@cache
def snippets_of(cases: tuple[Case, ...], arch: str, folder: Path) -> Snippets:
    """All cases that the architecture has, assembled together."""
    return Snippets(arch, folder, {case.key: text_of(case, arch) for case in cases if arch in case.archs})


def finished(case: Case, mode: Mode, form: Form, bits: int) -> int:
    """omod, denormals, clamp of a result."""
    keeps_denormals = not mode.flushes(form) and case.flush is not True
    flush = case.flush if case.flush is not None else mode.flushes(form)
    omod = case.omod
    if mode.arch != "gfx1201" and (mode.ieee_bit or keeps_denormals):
        omod = 0
    if omod and not is_nan(form, bits):
        power = {1: 1, 2: 2, 3: -1}[omod]
        value = flushed(form, bits)
        bits = flushed(form, encode(form, scale(decode(form, value), power))) if bits & (form.sign - 1) else 0
    elif flush:
        bits = flushed(form, bits)
    if case.clamp:
        one = form.bias << form.mantissa
        if is_nan(form, bits):
            return 0 if mode.dx10 else bits
        return 0 if bits & form.sign else min(bits, one)
    return bits


def expected(case: Case, mode: Mode, sources: list[int]) -> int:
    """The result's bits."""
    edited = []
    for k, (form, bits) in enumerate(zip(case.forms[1:], sources, strict=True)):
        sign = 0x8000 if form == B16 else form.sign
        bits = bits & ~sign if case.abs >> k & 1 else bits
        edited.append(bits ^ sign if case.neg >> k & 1 else bits)
    bits = case.formula(mode, *edited)
    form = case.forms[0]
    return bits if form.kind != "ieee" else finished(case, mode, form, bits)


def _read(v: Words, number: int, form: Form, half: int, lane: int) -> int:
    value = sum(int(v[number + d, lane]) << (32 * d) for d in range(_wide(form)))
    return value >> (16 * half) & 0xFFFF if form.width == 16 else value


def _place(case: Case, arch: str, old: int, value: int, half: int) -> int:
    """A 16-bit result in its register."""
    if half:
        return old & 0xFFFF | value << 16
    return value if arch in CDNA and not case.keeps else old & 0xFFFF0000 | value


def _both_nan(form: Form, half: int, want: int, got: int) -> bool:
    mask = (1 << form.width) - 1
    return all(is_nan(form, bits >> (16 * half if form.width == 16 else 0) & mask) for bits in (want, got))


def check(case: Case, arch: str, snippets: Snippets) -> None:
    """Every lane of every mode, lanes off by EXEC included."""
    seed = sum(map(ord, case.key))
    before = np.random.default_rng(seed).integers(0, 1 << 32, (96, 64), dtype=np.uint32)
    for row in range(ROWS):
        for k, (number, form) in enumerate(zip(_numbers(case, row), case.forms, strict=True)):
            if k == 0:
                continue
            if form.width == 16:
                low, high = (draw(form, seed + 100 * row + 10 * k + h, 64).astype(np.uint32) for h in (0, 1))
                before[number] = low | high << np.uint32(16)
                continue
            values = draw(form, seed + 100 * row + 10 * k, 64)
            for d in range(_wide(form)):
                before[number + d] = (values >> np.uint64(32 * d)).astype(np.uint32)
        if case.accumulates:  # the destination is the last source
            numbers = _numbers(case, row)
            for d in range(_wide(case.forms[-1])):
                before[numbers[0] + d] = before[numbers[-1] + d]
    for which in case.modes:
        mode = Mode(arch, **MODES[which])
        check_mode(case, mode, snippets, before, 1 if which > 1 else ROWS)


def check_mode(case: Case, mode: Mode, snippets: Snippets, before: Words, rows: int) -> None:
    """One MODE; the first rows."""
    exec_ = EXEC & ((1 << snippets.lanes) - 1)
    after = snippets.run(case.key, v=dict(enumerate(before)), exec=exec_, mode=mode.bits).v
    for row in range(rows):
        numbers, halves = _numbers(case, row), _halves(case, mode.arch, row)
        if case.accumulates:
            numbers, halves = [*numbers[:-1], numbers[0]], [*halves[:-1], halves[0]]
        first = case.forms[0]
        whole = first if first.width > 32 else B32
        for lane in range(64):
            old = want = _read(before, numbers[0], whole, 0, lane)
            sources: list[int] = []
            if exec_ >> lane & 1:
                sources = [
                    _read(before, n, f, h, lane)
                    for n, f, h in zip(numbers[1:], case.forms[1:], halves[1:], strict=True)
                ]
                want = expected(case, mode, sources)
                if first.width == 16:
                    want = _place(case, mode.arch, old, want, halves[0])
            got = _read(after, numbers[0], whole, 0, lane)
            if case.nan and sources and _both_nan(first, halves[0], want, got):
                continue
            assert got == want, f"{case.key} {mode} lane {lane} of {[hex(s) for s in sources]}: {got:#x}, not {want:#x}"


def pairs(cases: Iterable[Case]) -> list[tuple[str, Case]]:
    """(architecture, case) for pytest.mark.parametrize."""
    return [(arch, case) for case in cases for arch in case.archs]


def name_of(value: object) -> str:
    """Ids of the parameters."""
    return value.key if isinstance(value, Case) else str(value)


def settled(form: Form, result: int | None, sources: Iterable[int]) -> int:
    """A NaN source, quiet, or the invalid operation's NaN where there is no result."""
    if result is not None:
        return result
    return next((bits | form.quiet for bits in sources if is_nan(form, bits)), form.invalid)
