"""Every form of a bias, given as an array: the right values by the formula in float64, and what is refused with which words."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.domain.errors import ImpossibleProblem, UsageError
from fmha_cli.domain.resolve import raw_from_text
from fmha_cli.run.bias_forms import bias_flags, given_bias
from tests.support.referees.bias_values import FORMS, NUMPY, SIZES, Given, attend, drawn

B, H, S, K = SIZES
CLOSE = {"fp32": 5e-6, "fp16": 3e-3, "bf16": 2.5e-2}
"""Largest error of an element, where the elements are about 1: a few units of the output's rounding, and of P's and dS'."""


class Foreign:
    """Another library's tensor."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self) -> object:
        return self._array.__dlpack__()


def cases() -> list[Any]:
    """All forms forward and backward in fp32; the other types, and other libraries' tensors, in the slow suite."""
    out = []
    for form, dtype, boolean, foreign in product(FORMS, NUMPY, (False, True), (False, True)):
        often = (dtype == "fp32" and not foreign) or (form == "b11s" and dtype != "bf16")
        if not (foreign and dtype == "bf16" and not boolean):  # numpy exports no bf16
            out.append(pytest.param(form, dtype, boolean, foreign, marks=() if often else pytest.mark.slow))
    return out


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize(("form", "dtype", "boolean", "foreign"), cases())
def test_every_form_has_the_values_of_the_formula(form: str, dtype: str, boolean: bool, foreign: bool) -> None:
    """O, LSE and the gradients; dBias of numbers has the shape in which the bias was given."""
    given = drawn(form, dtype, boolean)
    want = attend(given)
    bias = Foreign(given.bias) if foreign else given.bias
    dbias = not boolean and FORMS[form].gradient
    tensors = {"bias": bias}
    done = api.attention(
        given.q, given.k, given.v, do=given.do, tensors=tensors, backend="cpu", lse=True, dbias=dbias, threads=1
    )
    assert done.verdict is api.Verdict.PASSED
    assert done.record.problem["bias"] == FORMS[form].rank
    for name in ("o", "lse", "dq", "dk", "dv", *(("dbias",) if dbias else ())):
        got = done.outputs[name].astype(np.float64)
        assert got.shape == want[name].shape, name
        finite = np.isfinite(want[name])
        assert (np.isfinite(got) == finite).all(), name
        error = np.abs(got[finite] - want[name][finite]) / np.maximum(1, np.abs(want[name][finite]))
        assert error.max() < CLOSE[dtype], (name, error.max())
    said = " ".join(done.record.notes)
    assert boolean is ("true = visible, the opposite of torch's key_padding_mask" in said)
    assert (form in ("rows", "2-D rows")) is ("expanded" in said)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("direction", ["fwd", "fwd+bwd"])
def test_a_row_of_which_no_key_is_visible(direction: str) -> None:
    """O = 0 and LSE = -inf, and no gradient comes from it."""
    given = drawn("b11s", "fp32", True)
    given.bias[1] = False
    do = given.do if direction == "fwd+bwd" else None
    done = api.attention(given.q, given.k, given.v, do=do, tensors={"bias": given.bias}, backend="cpu", lse=True)
    assert done.verdict is api.Verdict.PASSED
    assert not done.o[1].any()
    assert np.isneginf(done.outputs["lse"][1]).all()
    assert np.isfinite(done.outputs["lse"][0]).all()
    for name in ("dq", "dk", "dv") if do is not None else ():
        assert not done.outputs[name][1].any()
        assert done.outputs[name][0].any()


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("boolean", [False, True])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_what_a_hidden_key_holds_reaches_no_row(boolean: bool, poison: float) -> None:
    """K and V of keys that a false, or -inf, hides from all rows of a sequence: outputs are those of the other keys."""
    given, hidden = drawn("b11s", "fp32", boolean), slice(K - 5, K)
    given.bias[..., hidden] = False if boolean else -np.inf
    want = attend(given)
    given.k[..., hidden, :], given.v[..., hidden, :] = poison, poison
    done = api.attention(
        given.q, given.k, given.v, do=given.do, tensors={"bias": given.bias}, backend="cpu", lse=True, dbias=not boolean,
        check=False,
    )  # fmt: skip
    for name in ("o", "lse", "dq", "dk", "dv", *(() if boolean else ("dbias",))):
        np.testing.assert_allclose(done.outputs[name], want[name], atol=5e-6, rtol=5e-6, err_msg=name)


def test_one_head_and_a_bias_for_each_sequence() -> None:
    """(batch, 1, S, K) with one head: every sequence reads its own plane."""
    given = drawn("b1ss", "fp32", False)
    one = Given(*(x[:, :1].copy() for x in (given.q, given.k, given.v, given.do)), given.bias)
    done = api.attention(one.q, one.k, one.v, tensors={"bias": one.bias}, backend="cpu")
    assert (done.verdict, done.record.problem["bias"]) == (api.Verdict.PASSED, "b1ss")
    np.testing.assert_allclose(done.o, attend(one)["o"], atol=2e-6)


@pytest.mark.parametrize(
    ("line", "shape", "rank"),
    [
        (f"-b {B} -H {H} -s {S} --seqlen-k {K}", (S, K), "11ss"),
        (f"-b {B} -H {H} -s {S} --seqlen-k {K}", (B, K), "b11s"),
        (f"-b {B} -H {H} -s {S} --seqlen-k {K}", (1, K), "111s"),
        (f"-b {B} -H {H} -s {S} --seqlen-k {K}", (H, 1, K), "1h1s"),
        (f"-b 4 -H 4 -s {S} --seqlen-k {K}", (1, S, K), "11ss"),
        (f"-b 1 -H {H} -s {S} --seqlen-k {K}", (1, H, S, K), "1hss"),
        (f"-b {B} -H 1 -s {S} --seqlen-k {K}", (B, 1, S, K), "b1ss"),
        ("-b 4 -H 2 -s 1 --kv-cache linear --cache-seqlens 3,9,2,5 --append 1", (4, 10), "b11s"),
        ("-b 4 -H 2 -s 1 --kv-cache paged:16 --cache-seqlens 9", (4, 1, 1, 9), "b11s"),
        ("--seqlens-q 3,5 --seqlens-k 4,9 -H 2", (2, 1, 5, 9), "b1ss"),
        ("--seqlens-q 3,5 --seqlens-k 4,9 -H 2", (5, 9), "11ss"),
        ("--seqlens-q 3,5 --seqlens-k 4,9 -H 2", (2, 9), "b11s"),
    ],
)
def test_the_rank_of_a_shape(line: str, shape: tuple[int, ...], rank: str) -> None:
    assert bias_flags(raw_from_text(line), shape) == {"bias": f"elementwise:{rank}"}


@pytest.mark.parametrize(
    ("line", "shape", "words"),
    [
        ("-b 4 -H 2 -s 4 --seqlen-k 9", (4, 9), "(1, 1, 4, 9) or (4, 1, 1, 9)"),
        ("-b 4 -H 4 -s 5 --seqlen-k 9", (4, 5, 9), "(1, 4, 5, 9) or (4, 1, 5, 9)"),
    ],
)
def test_a_shape_of_two_forms_is_refused(line: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ImpossibleProblem, match="may mean") as fault:
        bias_flags(raw_from_text(line), shape)
    assert (fault.value.code, fault.value.where) == ("P015", "--bias-file")
    assert words in fault.value.what


@pytest.mark.parametrize("shape", [(K,), (S, K + 1), (B + 1, K), (B, S, K), (2, 1, S, K), (1, 1, 1, 1, K), ()])
def test_another_shape_is_refused_with_the_forms(shape: tuple[int, ...]) -> None:
    with pytest.raises(ImpossibleProblem) as fault:
        bias_flags({"batch": str(B), "heads": str(H), "seqlen": str(S), "seqlen_k": str(K)}, shape)
    assert fault.value.code == "P015"
    assert str(shape) in fault.value.what
    for form in (f"({B}, {H}, {S}, {K})", f"({H}, {S}, {K})", f"({S}, {K})", f"({B}, {K})"):
        assert form in str(fault.value.help)


def test_a_named_rank_chooses_between_two_forms_and_contradicts_another() -> None:
    problem = api.Problem.from_cli(f"-b 4 -H 2 -s 4 --seqlen-k {K} --dtype fp32 --bias elementwise:b11s")
    mask = np.zeros((4, K), np.float32)
    assert given_bias(problem, mask)[0].shape == (4, 1, 1, K)
    with pytest.raises(ImpossibleProblem, match="b11s asks for") as fault:
        given_bias(problem, np.zeros((1, 1, 4, K), np.float32))
    assert fault.value.help == "--bias elementwise: the shape gives the rank"


def test_a_bias_of_numbers_is_not_copied() -> None:
    problem = api.Problem.from_cli(f"-b {B} -H {H} -s {S} --seqlen-k {K} --dtype fp32 --bias elementwise:b11s")
    bias = np.zeros((B, K), np.float32)
    assert np.shares_memory(given_bias(problem, bias)[0], bias)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.int64])
def test_integers_are_refused_with_what_to_write(kind: Any) -> None:
    given = drawn("b11s", "fp32", True)
    with pytest.raises(UsageError) as fault:
        api.attention(given.q, given.k, given.v, tensors={"bias": given.bias.astype(kind)}, backend="cpu")
    assert fault.value.code == "E035"
    assert "x != 0 if 1 is visible, x == 0 if 1 is hidden" in str(fault.value.help)


def test_booleans_have_no_gradient() -> None:
    given = drawn("b11s", "fp32", True)
    with pytest.raises(ImpossibleProblem, match="dbias=True and a boolean bias") as fault:
        api.attention(given.q, given.k, given.v, do=given.do, tensors={"bias": given.bias}, dbias=True, backend="cpu")
    assert fault.value.code == "P007"
    assert fault.value.help == "leave dbias out"


def test_what_shifts_a_whole_row_has_no_gradient() -> None:
    given = drawn("rows", "fp32", False)
    with pytest.raises(ImpossibleProblem, match="dbias=True and a bias of shape") as fault:
        api.attention(given.q, given.k, given.v, do=given.do, tensors={"bias": given.bias}, dbias=True, backend="cpu")
    assert f"(1, 1, {S}, {K})" in str(fault.value.help)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_numbers_in_fp32_are_rounded_and_overflow_is_said(dtype: str) -> None:
    """The least number of fp32 is -inf in fp16, and hides what it only pushed down. In bf16 it is too, by rounding."""
    given = drawn("b11s", dtype, False)
    bias = given.bias.astype(np.float32)
    bias[0, ..., 0] = np.finfo(np.float32).min
    done = api.attention(given.q, given.k, given.v, tensors={"bias": bias}, backend="cpu")
    assert done.verdict is api.Verdict.PASSED
    said = [note for note in done.record.notes if note.startswith("bias: float32 rounded")]
    assert len(said) == 1
    assert "1 of its finite numbers became infinite" in said[0]


def test_columns_behind_a_sequences_keys_are_not_read() -> None:
    """Of packed sequences, and of a cache of several lengths: they may hold NaN."""
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, n, 8)).astype(np.float32) for n in (7, 12, 12))
    bias = rng.standard_normal((2, 1, 1, 9)).astype(np.float32)
    bias[0, ..., 3:] = np.nan
    done = api.attention(q, k, v, seqlens_q=(3, 4), seqlens_k=(3, 9), tensors={"bias": bias}, backend="cpu")
    assert done.verdict is api.Verdict.PASSED
    for rows, keys, plane in ((slice(0, 3), slice(0, 3), bias[0, 0, :, :3]), (slice(3, 7), slice(3, 12), bias[1, 0])):
        part = Given(*(x[None, :, at] for x, at in ((q, rows), (k, keys), (v, keys), (q, rows))), plane)
        np.testing.assert_allclose(done.o[:, rows], attend(part)["o"][0], atol=2e-6)


def test_bf16_is_compared_in_its_own_type() -> None:
    given = drawn("111s", "bf16", False)
    done = api.attention(given.q, given.k, given.v, tensors={"bias": given.bias}, backend="cpu")
    assert done.o.dtype == np.dtype(ml_dtypes.bfloat16)
    assert not done.record.notes
