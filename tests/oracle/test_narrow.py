"""fp8 in both encodings, MX types and caches with their own type: the oracle works on exactly the numbers that bits
mean.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fmha_cli.domain.dtypes import MX_BLOCK, DType, Fp8Encoding
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element, shapes_of
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.mx import encode_rows
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tensors import Array, SequenceView, largest, numpy_dtype, quantise, round_to
from fmha_cli.oracle.tolerance import compare
from tests.support.models.kernel_model import decode_rows

FORMATS = {
    Element.FP8_E4M3: (4, 3, 7, False),
    Element.FP8_E5M2: (5, 2, 15, True),
    Element.FP8_E4M3_FNUZ: (4, 3, 8, False),
    Element.FP8_E5M2_FNUZ: (5, 2, 16, False),
}
"""Bits of exponent and mantissa, bias of the exponent, whether the largest exponent means infinity and NaN."""


def meaning(code: int, element: Element) -> float:
    """The number that a byte means, by the definition of its format."""
    exponents, mantissas, bias, ieee = FORMATS[element]
    fnuz = element.value.endswith("fnuz")
    sign, body = -1.0 if code & 0x80 else 1.0, code & 0x7F
    exponent, mantissa = body >> mantissas, body & (1 << mantissas) - 1
    if fnuz and code == 0x80:
        return float("nan")
    if ieee and exponent == (1 << exponents) - 1:
        return float("nan") if mantissa else sign * float("inf")
    if not ieee and not fnuz and body == 0x7F:
        return float("nan")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissas)
    return sign * (1 + mantissa / (1 << mantissas)) * 2.0 ** (exponent - bias)


@pytest.mark.parametrize("element", list(FORMATS))
def test_every_byte_means_what_its_format_defines(element: Element) -> None:
    codes = np.arange(256, dtype=np.uint8).view(numpy_dtype(element)).astype(np.float64)
    np.testing.assert_array_equal(codes, [meaning(code, element) for code in range(256)])
    assert largest(element) == np.nanmax(codes[np.isfinite(codes)])


def test_the_encoding_is_a_storage_type() -> None:
    assert Element.of(DType.FP8_E4M3, Fp8Encoding.FNUZ) is Element.FP8_E4M3_FNUZ
    assert Element.of(DType.BF16, Fp8Encoding.FNUZ) is Element.BF16
    assert Element.of(DType.MXFP8, Fp8Encoding.FNUZ) is Element.FP8_E4M3  # OCP's by definition
    line = "-s 3 -d 16 --dtype fp8_e5m2:fp32 --fp8-encoding"
    ocp, fnuz = (Problem.from_cli(f"{line} {encoding}") for encoding in ("ocp", "fnuz"))
    inputs = fill(ocp)
    same_bits = {name: array.view(ml_dtypes.float8_e5m2fnuz) for name, array in inputs.items()}
    halved = {name: (array.astype(np.float32) / 2).astype(array.dtype) for name, array in inputs.items()}
    np.testing.assert_array_equal(forward(fnuz, same_bits).o, forward(ocp, halved).o)


def as_plain(problem: Problem, inputs: dict[str, Array]) -> dict[str, Array]:
    """q, k and v (batch, heads, s, d) float64, de-quantised by the definition of the scales, with literal loops."""
    out: dict[str, Array] = {name: inputs[name].astype(np.float64) for name in ("q", "k", "v")}
    if not problem.dtype.is_mx:
        return out
    for name in ("q", "k"):
        for *at, e in np.ndindex(*out[name].shape):
            out[name][(*at, e)] *= float(inputs[f"{name}_scale"][(*at, e // MX_BLOCK)])
    for b, g, j, e in np.ndindex(*out["v"].shape):
        out["v"][b, g, j, e] *= float(inputs["v_scale"][b, g, j // MX_BLOCK, e])
    return out


@pytest.mark.sampled(5, ci="all")
@pytest.mark.parametrize("dtype", ["mxfp8", "mxfp4", "mxfp8:fp32", "mxfp4:fp16"])
@pytest.mark.parametrize("kind", FILLS)
def test_mx_scales_span_head_dim_of_q_and_k_and_keys_of_v(dtype: str, kind: str) -> None:
    line = "-b 2 -H 4 --kv-heads 2 -s 3 --seqlen-k 70 -d 40 --hdim-v 5 --causal"
    problem, plain = Problem.from_cli(f"{line} --dtype {dtype}"), Problem.from_cli(f"{line} --dtype fp32")
    inputs = fill(problem, kind)
    assert {name: array.shape for name, array in inputs.items() if name.endswith("_scale")} == {
        "q_scale": (2, 4, 3, 2),
        "k_scale": (2, 2, 70, 2),
        "v_scale": (2, 2, 3, 5),
    }
    np.testing.assert_allclose(forward(problem, inputs).o, forward(plain, as_plain(problem, inputs)).o, rtol=1e-12)


@pytest.mark.parametrize(
    "line",
    [
        "--seqlens-q 3,0,4 --seqlens-k 50,2,33 -H 2 -d 40",
        "--seqlens-q 3,4 --seqlens-k 50,33 -H 2 -d 40 --layout bshd",
        "-b 2 -s 2 -H 2 -d 40 --kv-cache paged:48 --cache-seqlens 100,5",
        "-b 2 -s 2 -H 2 -d 40 --kv-cache linear --cache-seqlens 60,5 --cache-leftpad 3,40 --layout bshd",
        "-b 2 -s 5 -H 2 -d 33 --layout bshd",
    ],
)
@pytest.mark.parametrize("dtype", ["mxfp8", "mxfp4"])
def test_mx_in_every_form_of_storage(line: str, dtype: str) -> None:
    """The conversion is within half a step, so K and V come back near the float32 numbers that were converted."""
    problem, plain = (Problem.from_cli(f"{line} --dtype {name}") for name in (dtype, "fp32"))
    got, want = fill(problem), fill(plain)
    step = {"mxfp8": 2**-4, "mxfp4": 2**-2}[dtype]
    for b in range(problem.batch):
        view, exact = SequenceView(problem, got, b), SequenceView(plain, want, b)
        for h in range(problem.heads):
            for name in ("k", "v"):
                a, e = view.keys64(name, h), exact.keys64(name, h)
                assert a.shape == e.shape
                np.testing.assert_allclose(a, e, rtol=step, atol=4 * step)
            rows = np.arange(view.seqlen_q)
            np.testing.assert_allclose(view.queries(h, rows), exact.queries(h, rows), rtol=step, atol=4 * step)
    assert np.isfinite(forward(problem, got).o).all()


@pytest.mark.parametrize("element", [Element.FP8_E4M3, Element.FP4_E2M1])
def test_conversion_to_mx_follows_the_specification(element: Element) -> None:
    values = np.random.default_rng(0).standard_normal((7, 70)).astype(np.float32) * np.float32(1e3)
    values[2, :32] = 0
    codes, scales = encode_rows(values, element)
    top = {Element.FP8_E4M3: 8, Element.FP4_E2M1: 2}[element]
    for r, block in np.ndindex(7, 3):
        part = values[r, block * 32 : block * 32 + 32]
        size = float(np.abs(part).max())
        scale = 2.0 ** (np.floor(np.log2(size)) - top) if size else 1.0
        assert float(scales[r, block]) == scale
        limited = np.clip(part / np.float32(scale), -largest(element), largest(element))
        np.testing.assert_array_equal(codes[r, block * 32 : block * 32 + 32], round_to(limited, element))
    np.testing.assert_array_equal(
        decode_rows(*encode_rows(decode_rows(codes, scales), element)), decode_rows(codes, scales)
    )


@pytest.mark.parametrize(
    "line", ["--append 2 --kv-cache linear", "--direction bwd", "--kv-cache linear --kv-dtype int8"]
)
def test_what_would_need_new_block_scales_has_no_form(line: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        shapes_of(Problem.from_cli(f"--dtype mxfp8 {line}"))
    assert caught.value.code == "T001"


CACHES = ("linear", "paged:16", "linear --cache-leftpad 3,0")
KV = ("int8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3 --fp8-encoding fnuz", "fp8_e5m2 --fp8-encoding fnuz")


@pytest.mark.sampled(15, ci="all")
@pytest.mark.parametrize("scales", ["none", "tensor", "head", "block", "kv-block"])
@pytest.mark.parametrize("kv", KV)
@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_of_its_own_type_is_dequantised_exactly(cache: str, kv: str, scales: str) -> None:
    common = f"-b 2 -H 4 --kv-heads 2 -s 2 -d 8 --hdim-v 6 --cache-seqlens 150,20 --causal --kv-cache {cache}"
    problem = Problem.from_cli(f"{common} --dtype bf16 --kv-dtype {kv} --qscale {scales}")
    plain = Problem.from_cli(f"{common} --dtype fp32")
    inputs = fill(problem)
    assert "q_descale" not in inputs
    wide = {"q": inputs["q"].astype(np.float64)} | {n: x for n, x in inputs.items() if n == "block_table"}
    for name in ("k", "v"):
        wide[name] = inputs[name].astype(np.float64)
        scale = inputs.get(f"{name}_descale")
        for b in range(2):
            for g in range(2):
                for j in range(problem.key_lengths()[b]):
                    if problem.paged:
                        page = inputs["block_table"][b, j // 16]
                        row, at = wide[name][page, j % 16, g], (page, g)
                    else:
                        row, at = wide[name][b, g, problem.leftpads()[b] + j], (b, g, j // 128)
                    if scale is not None:
                        by = {"tensor": (0,), "head": (b, g), "block": (b, g, j // 128), "kv-block": at}[scales]
                        row *= float(scale[by])
    np.testing.assert_allclose(forward(problem, inputs).o, forward(plain, wide).o, rtol=1e-12)


@pytest.mark.parametrize("kv", KV)
@pytest.mark.parametrize("cache", CACHES)
def test_appended_keys_are_quantised_on_write(cache: str, kv: str) -> None:
    line = f"-b 2 -H 2 -s 1 -d 8 --cache-seqlens 20,5 --append 3 --kv-cache {cache} --dtype fp16 --kv-dtype {kv} --qscale head"
    problem = Problem.from_cli(line)
    inputs = fill(problem)
    assert inputs["k_new"].dtype == np.float16
    element = Element.of_keys(problem)
    answer = forward(problem, inputs)
    for b in range(2):
        end = problem.key_lengths()[b]
        for name in ("k", "v"):
            for g in range(2):
                held = Problem.from_cli(line.replace("--append 3", "").replace("20,5", "23,8"))
                kept = SequenceView(held, {**inputs, **answer.cache}, b).keys(name, g)[end - 3 : end]
                exact = inputs[f"{name}_new"][b, g].astype(np.float32) / inputs[f"{name}_descale"][b, g]
                limit = np.float32(largest(element))
                expected = round_to(np.clip(exact, -limit, limit), element)
                np.testing.assert_array_equal(kept.astype(np.float32), expected.astype(np.float32))
    o = answer.o_tensor(problem).astype(np.float16)
    assert compare(problem, o, None, answer, cache=answer.cache).verdict is Verdict.PASSED
    moved = {name: array.copy() for name, array in answer.cache.items()}
    wrong = moved["v"].view(np.uint8)
    wrong[inputs["v"].view(np.uint8) != wrong] ^= 0x10  # a written byte
    assert compare(problem, o, None, answer, cache=moved).verdict is Verdict.WRONG


def test_quantising_saturates_and_keeps_nan() -> None:
    values, one = np.array([[1e9, -1e9, 0.5, 1.5, np.nan]]), np.ones(1)
    assert quantise(values, one, Element.INT8).tolist() == [[127, -127, 0, 2, 0]]
    e4m3 = quantise(values, one, Element.FP8_E4M3).astype(np.float64)
    np.testing.assert_array_equal(e4m3, [[448, -448, 0.5, 1.5, np.nan]])


def test_unused_rows_hold_the_most_harmful_values() -> None:
    line = "-b 2 -H 2 -s 1 -d 8 --kv-cache linear --cache-seqlens 20,5"
    for kind, value in (("bf16 --kv-dtype int8", -128), ("mxfp4", 6)):
        problem = Problem.from_cli(f"{line} --dtype {kind}")
        inputs = fill(problem)
        assert (inputs["v"][1, :, 5:].astype(np.float64) == value).all()
    assert np.isnan(inputs["k_scale"][1, :, 5:].astype(np.float64)).all()
