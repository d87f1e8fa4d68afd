"""Tables of floating-point instructions with their formulas, run on every architecture and in every MODE.

A formula works on the raw bits of one lane: ``formula(mode, *sources)`` returns the raw bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fmha_amdgpu_emu_tests.support.float_reference import F16, F32, F64, Form, decode, encode, is_nan, scale
from fmha_amdgpu_emu_tests.support.float_values import B16, B32, MODES, Mode, draw, flushed
from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32, Snippets, check_each

Words = npt.NDArray[np.uint32]
Lanes = list[list[int]]
"""Registers as rows of lanes, as lists: indexing is faster than in arrays."""
EXEC = 0xF3A5_9C71_5B0F_E6D9
CDNA, RDNA, ALL = tuple(a for a in ARCHS if a not in WAVE32), WAVE32, ARCHS
Formula = Callable[..., int]


@dataclass(frozen=True)
class FloatInstruction:
    """One vector instruction.

    Attributes:
        forms: of the destination, then of the sources; 16-bit ones may be halves of registers on gfx11 and gfx12.
        keeps: whether a 16-bit result leaves the other half of its register unchanged on CDNA too.
        accumulates: whether the destination is also the last source.
        modifiers: whether the VOP3 form takes neg, abs, clamp and omod, which are then tested too.
        flush: True: denormal results always become zero; None: as MODE determines; False: never.
        text: operands other than registers in order ("{0}, {1}, 0x3f000000").
        mods: the text after the operands. nan: whether any NaN is accepted where one is expected.
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
        """A label that the assembler accepts."""
        extra = f"{self.mods}{self.text}" + (
            f"_n{self.neg}a{self.abs}c{self.clamp:d}o{self.omod}" if self.edited else ""
        )
        return self.name + "".join(c if c.isalnum() else "_" for c in extra)

    @property
    def edited(self) -> bool:
        """Whether the case has modifiers."""
        return bool(self.neg or self.abs or self.clamp or self.omod)


def variants(cases: Iterable[FloatInstruction]) -> tuple[FloatInstruction, ...]:
    """Each case, and variants with source and result modifiers if it accepts them."""
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


# ---- running ----

ROWS = 4


def _wide(form: Form) -> int:
    return max(1, form.width // 32)


def _numbers(case: FloatInstruction, row: int) -> list[int]:
    """The first registers of the destination and of each source."""
    return [8 + 4 * row, *(32 + 16 * k + 4 * row for k in range(len(case.forms) - 1))]


def _halves(case: FloatInstruction, arch: str, row: int) -> list[int]:
    """The half that holds each 16-bit operand: varied on gfx11 and gfx12, otherwise the lower one."""
    if arch not in RDNA:
        return [0] * len(case.forms)
    return [(row >> k & 1) if form.width == 16 else 0 for k, form in enumerate(case.forms)]


def _register(case: FloatInstruction, arch: str, number: int, form: Form, half: int) -> str:
    if form.width > 32:
        return f"v[{number}:{number + form.width // 32 - 1}]"
    return f"v{number}" + ((".l", ".h")[half] if form.width == 16 and arch in RDNA else "")


def text_of(case: FloatInstruction, arch: str) -> str:
    """The snippet: ROWS instances, each on separate registers."""
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
def snippets_of(cases: tuple[FloatInstruction, ...], arch: str, folder: Path) -> Snippets:
    """All cases that exist on the architecture, assembled together."""
    return Snippets(arch, folder, {case.key: text_of(case, arch) for case in cases if arch in case.archs})


def finished(case: FloatInstruction, mode: Mode, form: Form, bits: int) -> int:
    """A result after omod, denormal flushing and clamp."""
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


def expected(case: FloatInstruction, mode: Mode, sources: list[int]) -> int:
    """The expected bits of the result."""
    edited = []
    for k, (form, bits) in enumerate(zip(case.forms[1:], sources, strict=True)):
        sign = 0x8000 if form == B16 else form.sign
        bits = bits & ~sign if case.abs >> k & 1 else bits
        edited.append(bits ^ sign if case.neg >> k & 1 else bits)
    bits = case.formula(mode, *edited)
    form = case.forms[0]
    return bits if form.kind != "ieee" else finished(case, mode, form, bits)


def _read(v: Lanes, number: int, form: Form, half: int, lane: int) -> int:
    if form.width > 32:
        return sum(v[number + d][lane] << (32 * d) for d in range(form.width // 32))
    value = v[number][lane]
    return value >> (16 * half) & 0xFFFF if form.width == 16 else value


def _place(case: FloatInstruction, arch: str, old: int, value: int, half: int) -> int:
    """The register after a 16-bit result is written."""
    if half:
        return old & 0xFFFF | value << 16
    return value if arch in CDNA and not case.keeps else old & 0xFFFF0000 | value


def _both_nan(form: Form, half: int, want: int, got: int) -> bool:
    mask = (1 << form.width) - 1
    return all(is_nan(form, bits >> (16 * half if form.width == 16 else 0) & mask) for bits in (want, got))


def check(case: FloatInstruction, arch: str, snippets: Snippets) -> None:
    """Check every lane in every mode, including lanes that EXEC disables."""
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
        if case.accumulates:  # the destination is also the last source
            numbers = _numbers(case, row)
            for d in range(_wide(case.forms[-1])):
                before[numbers[0] + d] = before[numbers[-1] + d]
    words = before.tolist()
    for which in case.modes:
        mode = Mode(arch, **MODES[which])
        exec_ = EXEC & ((1 << snippets.lanes) - 1)
        after = snippets.run(case.key, v={0: before}, exec=exec_, mode=mode.bits).v
        check_mode(case, mode, exec_, words, after[:32].tolist(), 1 if which > 1 else ROWS)


def check_mode(case: FloatInstruction, mode: Mode, exec_: int, before: Lanes, after: Lanes, rows: int) -> None:
    """Check the first ``rows`` rows of the registers in one MODE."""
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


def check_all(cases: Iterable[FloatInstruction], arch: str, snippets: Snippets) -> None:
    """Check every instruction of an architecture."""
    check_each((case.key, partial(check, case, arch, snippets)) for case in cases if arch in case.archs)


def settled(form: Form, result: int | None, sources: Iterable[int]) -> int:
    """The result, or if it is None, the first NaN source made quiet, or the NaN of an invalid operation."""
    if result is not None:
        return result
    return next((bits | form.quiet for bits in sources if is_nan(form, bits)), form.invalid)
