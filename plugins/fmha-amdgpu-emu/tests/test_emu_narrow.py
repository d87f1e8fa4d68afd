"""fp8, bf8, fp6, bf6, fp4: every code, ties, saturation and stochastic rounding, against ml_dtypes and exact rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from float_cases import CDNA, draw
from float_reference import (
    BF6,
    BF8,
    BF8_FNUZ,
    BF16,
    F16,
    F32,
    FP4,
    FP6,
    FP8,
    FP8_FNUZ,
    NAN,
    Exact,
    Form,
    decode,
    encode,
    is_nan,
    scale,
)
from harness import Snippets

ml_dtypes = pytest.importorskip("ml_dtypes")

Words = npt.NDArray[np.uint32]
EXEC, ALL_LANES = 0xF3A5_9C71_5B0F_E6D9, (1 << 64) - 1
HAVE = ("gfx942", "gfx950", "gfx1201")
DTYPES = {
    FP8: ml_dtypes.float8_e4m3fn, BF8: ml_dtypes.float8_e5m2, FP8_FNUZ: ml_dtypes.float8_e4m3fnuz,
    BF8_FNUZ: ml_dtypes.float8_e5m2fnuz, FP6: ml_dtypes.float6_e2m3fn, BF6: ml_dtypes.float6_e3m2fn,
    FP4: ml_dtypes.float4_e2m1fn,
}  # fmt: skip
OVERFLOW = 1 << 23
"""MODE.FP16_OVFL."""


def formats(arch: str) -> dict[str, Form]:
    return {"fp8": FP8_FNUZ, "bf8": BF8_FNUZ} if arch == "gfx942" else {"fp8": FP8, "bf8": BF8}


@pytest.mark.parametrize("form", DTYPES, ids=lambda f: f"{f.kind}_e{f.exponent}m{f.mantissa}")
def test_the_reference_is_ml_dtypes(form: Form) -> None:
    """Every code, and rounding of random numbers and ties: two implementations agree."""
    dtype = DTYPES[form]
    codes = np.arange(1 << form.width, dtype=np.uint8)
    numbers = codes.view(dtype).astype(np.float32)
    for code, number in zip(codes, numbers, strict=True):
        x = decode(form, int(code))
        assert np.isnan(number) if x.special == "nan" else encode(F32, x) == int(number.view(np.uint32))
    finite = np.sort(numbers[np.isfinite(numbers)])
    ties = (finite[1:] + finite[:-1]) / 2
    for value in np.concatenate(
        [ties, np.nextafter(ties, np.float32(9)), draw(F32, 5, 500).astype(np.uint32).view(np.float32)]
    ):
        if not np.isfinite(value):
            continue
        with np.errstate(all="ignore"):
            want = int(np.array([value], np.float32).astype(dtype).view(np.uint8)[0])
        got = encode(form, decode(F32, int(np.float32(value).view(np.uint32))))
        assert got == want or (is_nan(form, got) and is_nan(form, want)), value


def byte_texts(arch: str) -> dict[str, str]:
    """From a byte of v0 or a pair of its bytes, in the forms that the architecture writes."""
    out = {}
    for name in ("fp8", "bf8"):
        for byte in range(4):
            if arch in CDNA:
                out[f"{name}_{byte}"] = f"v_cvt_f32_{name}_sdwa v1, v0 src0_sel:BYTE_{byte}"
            else:
                out[f"{name}_{byte}"] = f"v_cvt_f32_{name}_e64 v1, v0 byte_sel:{byte}"
        for word in range(2):
            if arch in CDNA:
                out[f"pk_{name}_{word}"] = f"v_cvt_pk_f32_{name}_sdwa v[2:3], v0 src0_sel:WORD_{word}"
            else:
                out[f"pk_{name}_{word}"] = f"v_cvt_pk_f32_{name} v[2:3], v0.{'lh'[word]}"
        out[f"plain_{name}"] = f"v_cvt_f32_{name} v1, v0"
    return out


@pytest.mark.parametrize("arch", HAVE)
def test_every_code_widens(arch: str, tmp_path: Path) -> None:
    texts = byte_texts(arch)
    snippets = Snippets(arch, tmp_path, texts)
    lanes = snippets.lanes

    def number(name: str, code: int) -> int:
        form = formats(arch)[name]
        x = decode(form, code)
        sign = 0x80000000 if form.kind != "fnuz" and code & form.sign else 0
        return (0x7FC00000 | sign) if x.special == "nan" else encode(F32, x)

    for start in range(0, 256, lanes):
        codes = np.arange(start, start + lanes) & 255
        words = np.zeros(64, np.uint32)
        words[:lanes] = sum(((codes + 37 * k & 255) << (8 * k)).astype(np.uint32) for k in range(4))
        for key in texts:
            after = snippets.run(key, v={0: words}, exec=(1 << lanes) - 1, mode=0x3F0).v
            *kind, name, place = key.split("_") if not key.startswith("plain") else ("one", *key.split("_")[1:], "0")
            for lane in range(lanes):
                word, at = int(words[lane]), int(place)
                if "pk" in kind:
                    for half in range(2):
                        assert int(after[2 + half, lane]) == number(name, word >> (16 * at + 8 * half) & 255), key
                else:
                    assert int(after[1, lane]) == number(name, word >> (8 * at) & 255), key


@pytest.mark.parametrize("overflow", [0, OVERFLOW], ids=("to_nan", "saturated"))
@pytest.mark.parametrize("arch", HAVE)
def test_two_narrow(arch: str, overflow: int, tmp_path: Path) -> None:
    """v_cvt_pk_fp8_f32 and its like: one half of the destination, the other stays."""
    texts = {}
    for name in ("fp8", "bf8"):
        for half in range(2):
            if arch in CDNA:
                texts[f"{name}_{half}"] = f"v_cvt_pk_{name}_f32 v2, v0, -v1" + (" op_sel:[0,0,1]" if half else "")
            else:
                texts[f"{name}_{half}"] = f"v_cvt_pk_{name}_f32 v2.{'lh'[half]}, v0, -v1"
    snippets = Snippets(arch, tmp_path, texts)
    exec_ = EXEC & ((1 << snippets.lanes) - 1)
    for seed in range(6):
        v = {k: draw(F32, seed * 7 + k, 64).astype(np.uint32) for k in range(3)}
        for key in texts:
            name, half = key.split("_")
            form = formats(arch)[name]
            for lane in range(0, 64, 3):  # ties: a code's number and half of the way to the next
                code = int(v[2][lane]) & (form.largest - 1)
                a, b = decode(form, code), decode(form, code + 1)
                middle = Exact(False, (a.digits << (a.exponent + 60)) + (b.digits << (b.exponent + 60)), -61)
                v[0][lane] = encode(F32, middle)
            after = snippets.run(key, v=v, exec=exec_, mode=0x3F0 | overflow).v[2]
            for lane in range(64):
                old = int(v[2][lane])
                want = old
                if exec_ >> lane & 1:
                    codes = [encode_f32(form, int(v[0][lane]), bool(overflow)),
                             encode_f32(form, int(v[1][lane]) ^ 0x80000000, bool(overflow))]  # fmt: skip
                    pair = codes[0] | codes[1] << 8
                    want = old & 0xFFFF | pair << 16 if half == "1" else old & 0xFFFF0000 | pair
                assert int(after[lane]) == want, f"{key} {lane} {int(v[0][lane]):#x} {int(v[1][lane]):#x}"


def encode_f32(form: Form, bits: int, saturate: bool, seed: int | None = None) -> int:
    """A binary32 code rounded; a NaN keeps its sign where the format has signed NaNs."""
    code = encode(form, decode(F32, bits), saturate=saturate, seed=seed)
    sign = form.sign if bits & 0x80000000 and form.kind != "fnuz" else 0
    return code | sign if is_nan(F32, bits) else code


@pytest.mark.parametrize("arch", HAVE)
def test_stochastic(arch: str, tmp_path: Path) -> None:
    """Each byte of the destination; gfx950's 16-bit forms, each half. Seeds that round up, down and at the edge."""
    places = {"fp8": 4, "bf8": 4} | ({"f16": 2, "bf16": 2} if arch == "gfx950" else {})
    texts = {}
    for name, count in places.items():
        for at in range(count):
            if arch not in CDNA:
                mods = f"byte_sel:{at}"
            elif count == 4:
                mods = f"op_sel:[0,0,{at & 1},{at >> 1}]"
            else:
                mods = f"op_sel:[0,0,{at}]"
            texts[f"{name}_{at}"] = f"v_cvt_sr_{name}_f32 v2, v0, v1 {mods}"
    snippets = Snippets(arch, tmp_path, texts)
    exec_ = EXEC & ((1 << snippets.lanes) - 1)
    for seed in range(4):
        v = {k: draw(F32, seed * 5 + k, 64).astype(np.uint32) for k in range(3)}
        v[1] = np.random.default_rng(seed).integers(0, 1 << 32, 64, dtype=np.uint32)
        v[1][:4] = 0, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF
        v[0][:4] = 0x3F8A0000
        for key in texts:
            name, at = key.split("_")
            form = {"f16": F16, "bf16": BF16}.get(name) or formats(arch)[name]
            after = snippets.run(key, v=v, exec=exec_, mode=0x3F0).v[2]
            for lane in range(64):
                old = want = int(v[2][lane])
                if exec_ >> lane & 1:
                    bits = int(v[0][lane])
                    code = encode_f32(form, bits, False, int(v[1][lane]))
                    if is_nan(F32, bits) and form in (F16, BF16):
                        shift = F32.mantissa - form.mantissa
                        code |= (bits & 0x7FFFFF) >> shift
                    shift, mask = int(at) * form.width, (1 << form.width) - 1
                    want = old & ~(mask << shift) | code << shift
                assert int(after[lane]) == want, f"{key} {lane} {int(v[0][lane]):#x}: {int(after[lane]):#x}, {want:#x}"


def test_stochastic_rounding_has_no_bias(tmp_path: Path) -> None:
    """The mean of many roundings of one number is that number: up as often as the lost digits say."""
    snippets = Snippets("gfx942", tmp_path, {"f": "v_cvt_sr_fp8_f32 v2, v0, v1"})
    rng = np.random.default_rng(1)
    for value in (1.03, 0.0021, 5.9, -33.1):
        numbers = []
        for _ in range(24):
            seeds = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
            after = snippets.run("f", v={0: np.full(64, value, np.float32).view(np.uint32), 1: seeds},
                                 exec=ALL_LANES, mode=0x3F0).v[2]  # fmt: skip
            numbers += list((after & 255).astype(np.uint8).view(ml_dtypes.float8_e4m3fnuz).astype(np.float64))
        spread = float(np.std(numbers)) / len(numbers) ** 0.5
        assert abs(float(np.mean(numbers)) - value) < 5 * spread


# ---- gfx950: a scale, a power of two ----

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
    """Registers of one or two numbers each; v100 is the scale (near one, and any), v101 the seed."""
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
    """Lanes that EXEC lets through; the others must be as before."""
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
