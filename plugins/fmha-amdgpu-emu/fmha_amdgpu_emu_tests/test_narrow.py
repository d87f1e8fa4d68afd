"""fp8, bf8, fp6, bf6, fp4 agree with ml_dtypes and exact rounding: all codes, ties, saturation, stochastic rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fmha_amdgpu_emu_tests.support.float_cases import CDNA
from fmha_amdgpu_emu_tests.support.float_reference import (
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
    Exact,
    Form,
    decode,
    encode,
    is_nan,
)
from fmha_amdgpu_emu_tests.support.float_values import draw
from fmha_amdgpu_emu_tests.support.harness import Snippets

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
    """For every code, and for rounding random numbers and ties, the two implementations agree."""
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
    """Conversions of a byte of v0 or a pair of its bytes, in the architecture's forms."""
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
    """v_cvt_pk_fp8_f32 and similar instructions write one half of the destination and keep the other."""
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
            for lane in range(0, 64, 3):  # ties: a code's number plus half the distance to the next
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
    """A binary32 code, rounded; a NaN keeps its sign if the format has signed NaNs."""
    code = encode(form, decode(F32, bits), saturate=saturate, seed=seed)
    sign = form.sign if bits & 0x80000000 and form.kind != "fnuz" else 0
    return code | sign if is_nan(F32, bits) else code


@pytest.mark.parametrize("arch", HAVE)
def test_stochastic(arch: str, tmp_path: Path) -> None:
    """Each destination byte, and each half in gfx950's 16-bit forms, with seeds that round up, down and at the edge."""
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
    """The mean of many roundings of one number is that number."""
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
