"""gfx950's v_cvt_scalef32: one, two or thirty-two numbers at once, multiplied or divided by a power of two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fmha_amdgpu_emu_tests.support.float_reference import (
    BF6,
    BF8,
    BF16,
    F16,
    F32,
    FP4,
    FP6,
    FP8,
    NAN,
    Exact,
    Form,
    decode,
    encode,
    is_nan,
    scale,
)
from fmha_amdgpu_emu_tests.support.float_values import draw
from fmha_amdgpu_emu_tests.support.harness import Snippets

Words = npt.NDArray[np.uint32]
EXEC = 0xF3A5_9C71_5B0F_E6D9

WIDE: dict[str, Form] = {"f32": F32, "f16": F16, "bf16": BF16}
NARROW: dict[str, Form] = {"fp8": FP8, "bf8": BF8, "fp6": FP6, "bf6": BF6, "fp4": FP4}


def scaled(x: Exact, scale_bits: int, up: bool) -> Exact:
    exponent = scale_bits >> 23 & 255
    if exponent == 255:
        return NAN
    return x if x.special else scale(x, exponent - 127 if up else 127 - exponent)


def narrowed(form: Form, wide: Form, bits: int, scale_bits: int, seed: int | None = None) -> int:
    x = scaled(decode(wide, bits), scale_bits, False)
    if x.special == "nan":
        exponent = scale_bits >> 23 & 255
        sign = form.sign if exponent != 255 and bits & wide.sign else 0
        return encode(form, NAN) | (sign if form.kind != "fnuz" else 0)
    return encode(form, x, seed=seed)


def widened(form: Form, wide: Form, code: int, scale_bits: int) -> int:
    sign = wide.sign if is_nan(form, code) and code & form.sign and scale_bits >> 23 & 255 != 255 else 0
    return encode(wide, scaled(decode(form, code), scale_bits, True)) | sign


def next_seed(seed: int) -> int:
    return (seed << 1 & 0xFFFFFFFF) ^ (197 if seed >> 31 else 0)


def run(snippets: Snippets, key: str, v: dict[int, Words]) -> Words:
    return snippets.run(key, v=v, exec=EXEC, mode=0x3F0).v


def sources(seed: int, wide: Form, registers: range) -> dict[int, Words]:
    """Registers of one or two numbers each; v100 is the scale (near one, and arbitrary), v101 the seed."""
    out = {}
    for k in registers:
        low, high = (draw(wide, seed * 1000 + 2 * k + h, 64).astype(np.uint32) for h in (0, 1))
        out[k] = low if wide.width == 32 else low | high << np.uint32(16)
    rng = np.random.default_rng(seed)
    exponents = rng.integers(118, 137, 64)
    exponents[:4] = 0, 255, 254, 1
    out[100] = (exponents.astype(np.uint32) << np.uint32(23)) | rng.integers(0, 1 << 23, 64, dtype=np.uint32)
    out[101] = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    return out


def active(after: Words, before: dict[int, Words], registers: range) -> list[int]:
    """The lanes that EXEC enables; the others must be unchanged."""
    for lane in range(64):
        if not EXEC >> lane & 1:
            for k in registers:
                assert int(after[k, lane]) == int(before[k][lane])
    return [lane for lane in range(64) if EXEC >> lane & 1]


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("wide", WIDE)
def test_scaled(wide: str, narrow: str, tmp_path: Path) -> None:
    """Every v_cvt_scalef32 between the two formats."""
    form, big = NARROW[narrow], WIDE[wide]
    check: Callable[[str, str, Form, Form, Path], None] = scaled_runs if form.width == 6 else scaled_pairs
    check(narrow, wide, form, big, tmp_path)


def selection(*bits: int) -> str:
    return f" op_sel:[{','.join(map(str, bits))}]"


def scaled_pairs(narrow: str, wide: str, form: Form, big: Form, tmp: Path) -> None:
    """fp8, bf8, fp4: one or two elements, a part of a register."""
    count, width = (2 if form.width == 8 else 4), form.width
    two_sources = wide == "f32"
    texts: dict[str, str] = {}
    for at in range(count):
        high = selection(0, 0, *([0] if two_sources else []), at) if count == 2 else selection(0, 0, at & 1, at >> 1)
        low = selection(at, 0, 0) if count == 2 else selection(at & 1, at >> 1, 0)
        texts[f"pack_{at}"] = f"v_cvt_scalef32_pk_{narrow}_{wide} v0, v1, {'v2, ' if two_sources else ''}v100{high}"
        target = "v[4:5]" if two_sources else "v4"
        texts[f"unpack_{at}"] = f"v_cvt_scalef32_pk_{wide}_{narrow} {target}, v0, v100{low}"
    for at in range(4):
        mods = selection(0, 0, at & 1, at >> 1)
        if count == 2:
            texts[f"sr_{at}"] = f"v_cvt_scalef32_sr_{narrow}_{wide} v0, v1, v101, v100{mods}"
            if wide != "bf16":
                texts[f"one_{at}"] = f"v_cvt_scalef32_{wide}_{narrow} v4, v0, v100{selection(at & 1, at >> 1, 0)}"
                if wide == "f16":
                    texts[f"onehigh_{at}"] = f"v_cvt_scalef32_f16_{narrow} v4, v0, v100{selection(at & 1, at >> 1, 1)}"
        else:
            source = "v[2:3]" if two_sources else "v2"
            texts[f"sr2_{at}"] = f"v_cvt_scalef32_sr_pk_fp4_{wide} v0, {source}, v101, v100{mods}"
    snippets = Snippets("gfx950", tmp, texts)
    for seed in range(3):
        v = sources(seed, big, range(6))
        for key in texts:
            kind, at = key.split("_")
            after = run(snippets, key, v)
            for lane in active(after, v, range(6)):
                words, s, rnd = [int(v[k][lane]) for k in range(6)], int(v[100][lane]), int(v[101][lane])
                mask = (1 << big.width) - 1
                pair = (words[1], words[2]) if two_sources else (words[1] & mask, words[1] >> 16)
                second = (words[2], words[3]) if two_sources else (words[2] & mask, words[2] >> 16)
                if kind in ("pack", "sr", "sr2"):
                    if kind == "pack":
                        codes = [narrowed(form, big, x, s) for x in pair]
                    elif kind == "sr":
                        codes = [narrowed(form, big, words[1] & mask, s, rnd)]
                    else:
                        codes = [
                            narrowed(form, big, second[0], s, rnd),
                            narrowed(form, big, second[1], s, next_seed(rnd)),
                        ]
                    bits = width * len(codes)
                    value = sum(code << (width * k) for k, code in enumerate(codes))
                    shift = int(at) * bits
                    want = words[0] & ~(((1 << bits) - 1) << shift) | value << shift
                    assert int(after[0, lane]) == want, f"{key} {lane}: {int(after[0, lane]):#x}, not {want:#x}"
                elif kind == "unpack":
                    part = words[0] >> (int(at) * 2 * width)
                    got = [widened(form, big, part >> (width * k) & ((1 << width) - 1), s) for k in range(2)]
                    if two_sources:
                        assert [int(after[4, lane]), int(after[5, lane])] == got, f"{key} {lane}"
                    else:
                        assert int(after[4, lane]) == got[0] | got[1] << 16, f"{key} {lane}"
                else:
                    number = widened(form, big, words[0] >> (8 * int(at)) & 255, s)
                    if kind == "onehigh":
                        number = words[4] & 0xFFFF | number << 16
                    elif wide == "f16":
                        number = words[4] & 0xFFFF0000 | number
                    assert int(after[4, lane]) == number, f"{key} {lane}: {int(after[4, lane]):#x}, not {number:#x}"


def scaled_runs(narrow: str, wide: str, form: Form, big: Form, tmp: Path) -> None:
    """fp6, bf6: thirty-two elements in six registers."""
    registers = 32 * big.width // 32
    run_of = f"v[32:{31 + registers}]"
    texts = {
        "unpack": f"v_cvt_scalef32_pk32_{wide}_{narrow} v[64:{63 + registers}], v[0:5], v100",
        "sr": f"v_cvt_scalef32_sr_pk32_{narrow}_{wide} v[0:5], {run_of}, v101, v100",
    }
    if wide == "f32":
        texts["turns"] = f"v_cvt_scalef32_2xpk16_{narrow}_f32 v[0:5], v[32:47], v[48:63], v100"
    else:
        texts["pack"] = f"v_cvt_scalef32_pk32_{narrow}_{wide} v[0:5], {run_of}, v100"
    snippets = Snippets("gfx950", tmp, texts)
    v = sources(9, big, range(96))

    def element(lane: int, k: int) -> int:
        word = int(v[32 + k * big.width // 32][lane])
        return word if big.width == 32 else word >> (16 * (k & 1)) & 0xFFFF

    for key in texts:
        after = run(snippets, key, v)
        for lane in active(after, v, range(6)):
            s, rnd = int(v[100][lane]), int(v[101][lane])
            if key == "unpack":
                packed = sum(int(v[d][lane]) << (32 * d) for d in range(6))
                numbers = [widened(form, big, packed >> (6 * k) & 63, s) for k in range(32)]
                got = sum(int(after[64 + d, lane]) << (32 * d) for d in range(registers))
                assert got == sum(x << (big.width * k) for k, x in enumerate(numbers)), f"{key} {lane}"
                continue
            codes = []
            for k in range(32):
                place = k if key != "turns" else k // 2 + 16 * (k & 1)
                codes.append(narrowed(form, big, element(lane, place), s, rnd if key == "sr" else None))
                rnd = next_seed(rnd)
            got = sum(int(after[d, lane]) << (32 * d) for d in range(6))
            assert got == sum(code << (6 * k) for k, code in enumerate(codes)), f"{key} {lane}"
