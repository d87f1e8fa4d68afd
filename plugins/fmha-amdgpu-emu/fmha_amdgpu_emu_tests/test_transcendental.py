"""Exponential, logarithm, reciprocals, roots, sine and cosine are within 0.51 ulp of the true value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.float_cases import ALL, CDNA, RDNA
from fmha_amdgpu_emu_tests.support.float_reference import F16, F32, F64, Form, encode, from_float, is_nan, to_float
from fmha_amdgpu_emu_tests.support.float_values import Mode, draw, flushed
from fmha_amdgpu_emu_tests.support.harness import Snippets

LIMIT = 0.51
EXEC = 0xF3A5_9C71_5B0F_E6D9
Function = Callable[[float], float]


def exp2(x: float) -> float:
    return math.inf if x > 1000 else 0.0 if x < -1000 else 2.0**x


def log2(x: float) -> float:
    return -math.inf if x == 0 else math.log2(x) if x > 0 else math.nan


def reciprocal(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def root(x: float) -> float:
    return x if x == 0 else math.sqrt(x) if x > 0 else math.nan


def reciprocal_root(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x) if x > 0 else math.nan


def circular(x: float, shift: int) -> float:
    """sin (0) or cos (1) of x turns, exact at quarters."""
    if math.isinf(x):
        return math.nan
    if x == 0 and not shift:
        return x
    rest = math.fmod(x, 1.0)
    quarter = round(rest * 4)
    angle = (rest - quarter / 4) * 2 * math.pi
    value = (math.sin(angle), math.cos(angle), -math.sin(angle), -math.cos(angle))[(quarter + shift) % 4]
    return value if value else 0.0


FUNCTIONS: dict[str, Function] = {
    "exp": exp2,
    "log": log2,
    "rcp": reciprocal,
    "sqrt": root,
    "rsq": reciprocal_root,
    "sin": lambda x: circular(x, 0),
    "cos": lambda x: circular(x, 1),
}


def ulp(form: Form, value: float) -> float:
    """The unit in the last place of a number of this size."""
    exponent = math.frexp(value)[1] - 1
    return math.ldexp(1.0, max(exponent, 1 - form.bias) - form.mantissa)


def judge(form: Form, function: Function, flush_in: bool, flush_out: bool, source: int, got: int, what: str) -> None:
    """Compare one result; NaN, infinities and zeros must be exact, with their signs."""
    source = flushed(form, source) if flush_in else source
    if is_nan(form, source):
        assert got == source | form.quiet, what
        return
    true = function(to_float(form, source))
    if math.isnan(true):
        assert got == form.invalid, what
        return
    nearest = encode(form, from_float(true))
    if flush_out:
        edge = math.ldexp(1.0, 1 - form.bias)
        if abs(abs(true) - edge) < ulp(form, edge):
            return  # flushed or not, depending on the last digit
        nearest = flushed(form, nearest)
    if math.isinf(true) or nearest & (form.sign - 1) in (0, form.infinity):
        assert got == nearest, what
        return
    assert abs(to_float(form, got) - true) <= LIMIT * ulp(form, true), what


@dataclass(frozen=True)
class Op:
    """A function in a format. binary32 always flushes denormals; sine, cosine and other formats follow MODE."""

    name: str
    form: Form
    archs: tuple[str, ...]
    function: Function

    def flushes(self, mode: Mode) -> bool:
        if self.form is F32 and not self.name.startswith(("v_sin", "v_cos")):
            return True
        return mode.flushes(self.form)


OPS = (
    *(Op(f"v_{name}_f32", F32, ALL, function) for name, function in FUNCTIONS.items()),
    *(Op(f"v_{name}_f16", F16, ALL, function) for name, function in FUNCTIONS.items()),
    *(Op(f"v_{name}_f64", F64, ALL, FUNCTIONS[name]) for name in ("rcp", "sqrt", "rsq")),
    Op("v_rcp_iflag_f32", F32, ALL, reciprocal),
    Op("v_exp_legacy_f32", F32, CDNA, exp2),
    Op("v_log_legacy_f32", F32, CDNA, log2),
)
SCALAR = tuple(
    Op(f"v_s_{name}_f{form.width}", form, ("gfx1201",), FUNCTIONS[name])
    for name in ("exp", "log", "rcp", "sqrt", "rsq")
    for form in (F32, F16)
)
PAIRS = [(arch, op) for op in OPS for arch in op.archs]
ROWS = 16


def text_of(op: Op, arch: str) -> str:
    wide = op.form.width // 32
    lines = []
    for row in range(ROWS):
        if wide == 2:
            lines.append(f"{op.name} v[{64 + 2 * row}:{65 + 2 * row}], v[{2 * row}:{2 * row + 1}]")
        else:
            half = ".l" if op.form is F16 and arch in RDNA else ""
            lines.append(f"{op.name} v{64 + row}{half}, v{row}{half}")
    return "\n".join(lines)


def domain(op: Op, seed: int) -> list[int]:
    """64 sources; for the exponential and the circular functions, half of them are of moderate size."""
    values = [int(x) for x in draw(op.form, seed, 64)]
    rng = np.random.default_rng(seed)
    if op.name.startswith(("v_exp", "v_sin", "v_cos", "v_s_exp")):
        for lane in range(0, 64, 2):
            values[lane] = encode(op.form, from_float(float(rng.normal(0, 40))))
        for lane, x in enumerate((0.25, 0.5, 0.75, 1.0, -0.25, 2.5, 100.25, -126.0, -126.5, 127.5, -149.0, 15.99)):
            values[2 * lane + 1] = encode(op.form, from_float(x))
    return values


@pytest.mark.parametrize(("arch", "op"), PAIRS, ids=lambda x: x if isinstance(x, str) else x.name)
def test_function(arch: str, op: Op, tmp_path: Path) -> None:
    snippets = Snippets(arch, tmp_path, {"f": text_of(op, arch)})
    exec_ = EXEC & ((1 << snippets.lanes) - 1)
    wide = max(1, op.form.width // 32)
    sources = [domain(op, 77 * row + len(op.name)) for row in range(ROWS)]
    v = {wide * row + d: np.array([x >> (32 * d) & 0xFFFFFFFF for x in sources[row]], np.uint32)
         for row in range(ROWS) for d in range(wide)}  # fmt: skip
    for mode in (Mode(arch), Mode(arch, flush32=True, flush16=True), Mode(arch, round32=1)):
        after = snippets.run("f", v=v, exec=exec_, mode=mode.bits).v
        flush = op.flushes(mode)
        for row in range(ROWS):
            for lane in range(64):
                got = sum(int(after[64 + wide * row + d, lane]) << (32 * d) for d in range(wide))
                if not exec_ >> lane & 1:
                    assert got == 0
                    continue
                source = sources[row][lane]
                what = f"{op.name} {mode} of {source:#x} ({to_float(op.form, source)}): {got:#x}"
                judge(op.form, op.function, flush, flush, source, got, what)


@pytest.mark.parametrize("op", SCALAR, ids=lambda op: op.name)
def test_scalar_form(op: Op, tmp_path: Path) -> None:
    """One value in SGPRs: EXEC has no effect, modifiers do."""
    texts = {"f": f"{op.name} s4, s5", "minus": f"{op.name} s4, -|s5|", "half": f"{op.name} s4, s5 mul:2"}
    snippets = Snippets("gfx1201", tmp_path, texts)
    sign = op.form.sign
    for seed in range(4):
        for source in domain(op, 31 * seed):
            for name, seen in (("f", source), ("minus", source | sign)):
                after = snippets.run(name, s={5: source | 0xABCD0000 if op.form is F16 else source}, exec=0, mode=0xF0)
                got, what = int(after.s[4]), f"{op.name} {name} of {source:#x}"
                judge(op.form, op.function, op.form is F32, op.form is F32, seen, got, f"{what}: {got:#x}")


def test_the_documents_examples(tmp_path: Path) -> None:
    """The results equal CDNA4 12.8's functional examples."""
    examples = {
        "v_exp_f32": {0xFF800000: 0, 0x80000000: 0x3F800000, 0x7F800000: 0x7F800000},
        "v_log_f32": {0xFF800000: 0xFFC00000, 0xBF800000: 0xFFC00000, 0x80000000: 0xFF800000, 0: 0xFF800000,
                      0x3F800000: 0, 0x7F800000: 0x7F800000},
        "v_rcp_f32": {0xFF800000: 0x80000000, 0xC0000000: 0xBF000000, 0x80000000: 0xFF800000, 0: 0x7F800000,
                      0x7F800000: 0},
        "v_rsq_f32": {0xFF800000: 0xFFC00000, 0x80000000: 0xFF800000, 0: 0x7F800000, 0x40800000: 0x3F000000,
                      0x7F800000: 0},
        "v_sqrt_f32": {0xFF800000: 0xFFC00000, 0x80000000: 0x80000000, 0: 0, 0x40800000: 0x40000000,
                       0x7F800000: 0x7F800000},
        "v_sin_f32": {0xFF800000: 0xFFC00000, 0xFF7FFFFF: 0, 0x80000000: 0x80000000, 0x3E800000: 0x3F800000,
                      0x7F800000: 0xFFC00000},
        "v_cos_f32": {0xFF800000: 0xFFC00000, 0xFF7FFFFF: 0x3F800000, 0x80000000: 0x3F800000, 0x3E800000: 0,
                      0x7F800000: 0xFFC00000},
        "v_exp_f16": {0xFC00: 0, 0x8000: 0x3C00, 0x7C00: 0x7C00},
        "v_log_f16": {0xFC00: 0xFE00, 0xBC00: 0xFE00, 0x8000: 0xFC00, 0: 0xFC00, 0x3C00: 0, 0x7C00: 0x7C00},
        "v_rcp_f16": {0xFC00: 0x8000, 0xC000: 0xB800, 0x8000: 0xFC00, 0: 0x7C00, 0x7C00: 0},
        "v_rsq_f16": {0xFC00: 0xFE00, 0x8000: 0xFC00, 0: 0x7C00, 0x4400: 0x3800, 0x7C00: 0},
        "v_sqrt_f16": {0xFC00: 0xFE00, 0x8000: 0x8000, 0: 0, 0x4400: 0x4000, 0x7C00: 0x7C00},
        "v_sin_f16": {0xFC00: 0xFE00, 0xFBFF: 0, 0x8000: 0x8000, 0x3400: 0x3C00, 0x7BFF: 0, 0x7C00: 0xFE00},
        "v_cos_f16": {0xFC00: 0xFE00, 0xFBFF: 0x3C00, 0x8000: 0x3C00, 0x3400: 0, 0x7BFF: 0x3C00, 0x7C00: 0xFE00},
    }  # fmt: skip
    snippets = Snippets("gfx942", tmp_path, {name: f"{name} v1, v0" for name in examples})
    for name, pairs in examples.items():
        after = snippets.run(name, v={0: np.array([*pairs] + [0] * (64 - len(pairs)), np.uint32)}, mode=0x3F0,
                             exec=(1 << 64) - 1)  # fmt: skip
        assert [int(x) for x in after.v[1, : len(pairs)]] == list(pairs.values()), name
