"""Minimum, maximum and median: -0 is below +0, and NaNs follow the generation and IEEE 754-2019's two operations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_amdgpu_emu_tests.support.float_cases import (
    ALL,
    CDNA,
    RDNA,
    FloatInstruction,
    check_all,
    snippets_of,
    variants,
)
from fmha_amdgpu_emu_tests.support.float_reference import F16, F32, F64, Form, is_nan, order
from fmha_amdgpu_emu_tests.support.float_values import Mode
from fmha_amdgpu_emu_tests.support.harness import archs_of

GFX11, GFX12 = ("gfx1100",), ("gfx1201",)


def signalling(form: Form, bits: int) -> bool:
    """Whether the code is a signalling NaN."""
    return is_nan(form, bits) and not bits & form.quiet


def two(form: Form, largest: bool, rule: str) -> Callable[[Mode, int, int], int]:
    """The rules of the documents' text; ``rule``: old (v_min_f32), number, propagate."""

    def cdna(mode: Mode, a: int, b: int) -> int | None:
        if mode.ieee and signalling(form, a):
            return a | form.quiet
        if mode.ieee and signalling(form, b):
            return b | form.quiet
        if is_nan(form, a):
            return b
        return a if is_nan(form, b) else None

    def rdna3(mode: Mode, a: int, b: int) -> int | None:
        if mode.ieee and signalling(form, a):
            return a | form.quiet
        if mode.ieee and signalling(form, b):
            return b | form.quiet
        if is_nan(form, b):
            return a
        return b if is_nan(form, a) else None

    def number(mode: Mode, a: int, b: int) -> int | None:
        if is_nan(form, a) and is_nan(form, b):
            return a | form.quiet
        if is_nan(form, a):
            return b
        return a if is_nan(form, b) else None

    def propagate(mode: Mode, a: int, b: int) -> int | None:
        for bits in (a, b):
            if signalling(form, bits):
                return bits | form.quiet
        return a if is_nan(form, a) else b if is_nan(form, b) else None

    def formula(mode: Mode, a: int, b: int) -> int:
        old = cdna if mode.arch in CDNA else rdna3
        special = {"old": old, "number": number, "propagate": propagate}[rule](mode, a, b)
        if special is not None:
            return special
        return (max if largest else min)(a, b, key=lambda bits: order(form, bits))

    return formula


def flushing(form: Form, inner: Callable[..., int]) -> Callable[..., int]:
    """A formula that flushes only the denormals of the input."""
    return lambda mode, *sources: inner(mode, *(mode.flushed(form, s) for s in sources))


def nested(form: Form, inside: bool, outside: bool, rule: str) -> Callable[..., int]:
    """min3 is the minimum of a minimum, maxmin the minimum of a maximum."""
    inner, outer = two(form, inside, rule), two(form, outside, rule)
    return lambda mode, a, b, c: outer(mode, inner(mode, a, b), c)


def median(form: Form, rule: str) -> Callable[..., int]:
    """The documents' text: if the largest equals a source, the larger of the other two."""
    low, high = two(form, False, rule), two(form, True, rule)

    def equal(a: int, b: int) -> bool:
        return a == b or not (a | b) & (form.sign - 1)

    def formula(mode: Mode, a: int, b: int, c: int) -> int:
        if any(is_nan(form, x) for x in (a, b, c)):
            return low(mode, low(mode, a, b), c)
        most = high(mode, high(mode, a, b), c)
        if equal(most, a):
            return high(mode, b, c)
        return high(mode, a, c) if equal(most, b) else high(mode, a, b)

    return formula


def family(
    form: Form, archs: tuple[str, ...], names: dict[str, str], rule: str, keeps: bool = False
) -> list[FloatInstruction]:
    """min, max, min3, ... under their names in a generation."""
    made: dict[str, tuple[int, Callable[..., int]]] = {
        "min": (2, two(form, False, rule)),
        "max": (2, two(form, True, rule)),
        "min3": (3, nested(form, False, False, rule)),
        "max3": (3, nested(form, True, True, rule)),
        "minmax": (3, nested(form, False, True, rule)),
        "maxmin": (3, nested(form, True, False, rule)),
        "med3": (3, median(form, rule)),
    }
    out = []
    for operation, name in names.items():
        sources, formula = made[operation]
        out.append(
            FloatInstruction(
                f"v_{name}_f{form.width}",
                archs,
                (form,) * (1 + sources),
                flushing(form, formula),
                flush=False,
                keeps=keeps,
            )
        )
    return out


OLD2, OLD3 = {"min": "min", "max": "max"}, {"min3": "min3", "max3": "max3", "med3": "med3"}
CROSSED = {"minmax": "minmax", "maxmin": "maxmin"}
NUMBER2 = {key: f"{key}_num" for key in ("min", "max")}
NUMBER3 = {key: f"{key}_num" for key in ("min3", "max3", "med3", "minmax", "maxmin")}
IEEE2 = {"min": "minimum", "max": "maximum"}
IEEE3 = {"min3": "minimum3", "max3": "maximum3", "minmax": "minimummaximum", "maxmin": "maximumminimum"}
CASES = variants(
    [
        *family(F32, (*CDNA, *GFX11), OLD2 | OLD3, "old"),
        *family(F32, GFX11, CROSSED, "old"),
        *family(F32, GFX12, NUMBER2 | NUMBER3, "number"),
        *family(F32, GFX12, IEEE2 | IEEE3, "propagate"),
        *family(F32, ("gfx950",), {"min3": "minimum3", "max3": "maximum3"}, "propagate"),
        *family(F16, (*CDNA, *GFX11), OLD2, "old"),
        *family(F16, (*CDNA, *GFX11), OLD3, "old", keeps=True),
        *family(F16, GFX11, CROSSED, "old"),
        *family(F16, GFX12, NUMBER2 | NUMBER3, "number"),
        *family(F16, GFX12, IEEE2 | IEEE3, "propagate"),
        *family(F64, (*CDNA, *GFX11), OLD2, "old"),
        *family(F64, GFX12, NUMBER2, "number"),
        *family(F64, GFX12, IEEE2, "propagate"),
    ]
)


@pytest.mark.parametrize("arch", archs_of(CASES))
def test_select(arch: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_all(CASES, arch, snippets_of(CASES, arch, Path(tmp_path_factory.getbasetemp())))


def test_every_architecture_takes_part() -> None:
    assert {arch for case in CASES for arch in case.archs} == set(ALL) == {*CDNA, *RDNA}
