"""Extreme scores, sinks and biases: budgets stay bounded, the right value passes, lost rows do not."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.dropout import fmha_stream
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.measure import floors
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tensors import round_to
from fmha_cli.oracle.tolerance import compare, compare_gradients
from tests.support.generators.campaign import honest_run
from tests.support.models.faults import ExtremeFault
from tests.support.models.kernel_model import Style, model_forward
from tests.support.models.kernel_model_backward import model_backward
from tests.support.referees.brute import attention

SMALL = "-b 1 -H 2 -s 40 --seqlen-k 48 -d 32"
LARGE = [
    f"{SMALL} --dtype fp32 --scale 1e10",
    f"{SMALL} --dtype fp32 --scale 1e28",
    f"{SMALL} --dtype fp32 --scale 1e37 --causal",
    f"{SMALL} --dtype fp16 --scale -1e12",
    f"{SMALL} --dtype bf16 --scale 1e10",
    f"{SMALL} --dtype fp8_e4m3:bf16 --qscale tensor --scale 1e20",
    f"{SMALL} --dtype fp8_e5m2:bf16 --qscale head --scale 1e10",
    f"{SMALL} --dtype mxfp8:bf16 --scale 1e15",
    f"{SMALL} --dtype mxfp4:bf16 --scale 1e15",
    f"{SMALL} --dtype fp32 --alibi-slopes filled:h --scale 1e11",
    f"{SMALL} --dtype bf16 --scale 1e11 --dropout 0.3",
    f"{SMALL} --dtype fp32 --kv-cache linear --cache-seqlens 44 --append 4 --rotary 32 --scale 1e12",
    f"{SMALL} --dtype bf16 --kv-cache linear --cache-seqlens 44 --append 4 --rotary 32 --scale 1e12",
]
GRADIENTS = [line for line in LARGE if not any(word in line for word in ("fp16", "fp8", "mx", "cache"))]
GRADIENTS += [
    f"{SMALL} --dtype {dtype} * {size}"
    for dtype, size in (("fp16", 8000), ("bf16", 1e6), ("fp32", 1e5), ("fp32", 1e14))
]
STYLES = [Style(tile=16), Style(tile=32, base2=True)]


@pytest.mark.parametrize("line", LARGE)
def test_rows_of_large_scores_pass_and_rows_of_zeros_do_not(line: str) -> None:
    """Rows of 0 with an LSE of -inf are wrong whether or not LSE was asked for."""
    problem = Problem.from_cli(f"{line} --lse")
    inputs = fill(problem, "normal", 3)
    reference = forward(problem, inputs)
    for style in STYLES:
        honest = model_forward(problem, inputs, style=style)
        judged = compare(problem, honest.o, honest.lse, reference)
        assert all(check.passed for _, check in judged.checks), judged
    if not problem.dropout:  # it may leave keys without weight
        assert (np.abs(reference.o).max(axis=1) > 0).all()
    for rows in (slice(None), slice(3, 4)):
        o, lse = honest.o.copy(), honest.lse.copy()
        o[:, 1, rows], lse[:, 1, rows] = 0, -np.inf
        for some in (lse, None):
            checks = dict(compare(problem, o, some, reference).checks)
            assert not checks["o"].passed
        assert compare(problem, honest.o, lse, reference).verdict is Verdict.WRONG
    lost = model_forward(problem, inputs, fault=ExtremeFault.SCALED_MAXIMUM)
    assert not dict(compare(problem, lost.o, None, reference).checks)["o"].passed


@pytest.mark.parametrize("line", GRADIENTS)
def test_gradients_of_large_scores_pass_and_lost_rows_do_not(line: str) -> None:
    line, _, size = line.partition(" * ")
    problem = Problem.from_cli(f"{line} --direction bwd")
    inputs = fill(problem, "normal", 3)
    for name in ("q", "k"):
        inputs[name] = (inputs[name].astype(np.float32) * float(size or 1)).astype(inputs[name].dtype)
    gradients = backward(problem, inputs)
    honest = model_backward(problem, inputs)
    judged = compare_gradients(problem, honest, gradients)
    assert all(check.passed for _, check in judged.checks), judged
    lost = dict(
        compare_gradients(problem, model_backward(problem, inputs, fault=ExtremeFault.SCALED_MAXIMUM), gradients).checks
    )
    assert not lost["dv"].passed
    wrong = honest["dv"].copy()  # dQ and dK are differences that cancel in one-hot rows
    wrong[np.unravel_index(np.linalg.norm(gradients.dv, axis=-1).argmax(), gradients.dv.shape[:-1])] = 0
    assert compare_gradients(problem, {"dv": wrong}, gradients).verdict is Verdict.WRONG


BIASED = f"{SMALL} --bias elementwise:bhss --dbias"


def biased(dtype: str, row: float, *, direction: str = "fwd") -> tuple[Problem, dict[str, np.ndarray]]:
    """A problem whose row 7 of head 1 has one bias throughout, of the size of a padding mask."""
    problem = Problem.from_cli(
        f"{BIASED.replace('--dbias', '' if direction == 'fwd' else '--dbias')} --dtype {dtype} --direction {direction}"
    )
    inputs = fill(problem, "normal", 5)
    inputs["bias"][0, 1, 7] = row
    return problem, inputs


@pytest.mark.parametrize(
    ("dtype", "bias"),
    [("fp32", float(np.finfo(np.float32).min)), ("bf16", -3.3895e38), ("fp32", -1e9), ("bf16", -1e9), ("fp16", -65504)],
)
def test_a_row_whose_bias_is_a_padding_masks_is_a_mean_of_values_and_never_zero(dtype: str, bias: float) -> None:
    problem, inputs = biased(dtype, bias)
    reference = forward(problem, inputs)
    honest = model_forward(problem, inputs)
    mean = inputs["v"][0, 1].astype(np.float64).mean(axis=0)
    at = 40 + 7
    assert compare(problem, honest.o, honest.lse, reference).verdict is Verdict.PASSED
    assert reference.lse[at] == pytest.approx(bias, rel=2.0**-8)
    if abs(bias) > 1e8:
        np.testing.assert_allclose(honest.o[0, 1, 7].astype(np.float64), mean, atol=0.01)
    if abs(bias) > 1e30:
        np.testing.assert_allclose(reference.o[at], mean, rtol=1e-9)
    for value in (0.0, inputs["v"][0, 1, 0], 2 * honest.o[0, 1, 7]):
        wrong = honest.o.copy()
        wrong[0, 1, 7] = value
        assert compare(problem, wrong, None, reference).verdict is Verdict.WRONG
    lse = honest.lse.copy()
    lse[0, 1, 7] = -np.inf
    assert compare(problem, honest.o, lse, reference).verdict is Verdict.WRONG


def test_a_cap_keeps_the_rounding_of_its_own_size_under_large_scores() -> None:
    """Saturated scores are the cap but for the last digits of tanh, 20 * 2^-24, which move P."""
    problem = Problem.from_cli(f"{SMALL} --dtype fp32 --softcap 20 --scale 1e15 --lse")
    inputs = fill(problem, "normal", 3)
    reference = forward(problem, inputs)
    digits = 1 + 20 * 2.0**-24 * np.where(np.arange(40) % 2, 1, -1)[:, None]
    o = (reference.o_tensor(problem) * digits).astype(np.float32)
    assert compare(problem, o, None, reference).verdict is Verdict.PASSED
    far = (reference.o_tensor(problem) * (1 + 1e-4)).astype(np.float32)
    assert compare(problem, far, None, reference).verdict is Verdict.WRONG


@pytest.mark.parametrize("bias", [float(np.finfo(np.float32).min), -1e9, 1e20])
def test_gradients_of_such_a_row_are_its_own(bias: float) -> None:
    problem, inputs = biased("fp32", 0.0, direction="bwd")
    inputs["bias"][0, 1, 7, (slice(None) if bias < 0 else 3)] = bias
    gradients = backward(problem, inputs)
    honest = model_backward(problem, inputs)
    assert compare_gradients(problem, honest, gradients).verdict is Verdict.PASSED
    without = dict(inputs, do=inputs["do"].copy())
    without["do"][0, 1, 7] = 0
    lost = model_backward(problem, without)
    checks = dict(compare_gradients(problem, lost, gradients).checks)
    assert not checks["dv"].passed
    if bias < 0:  # else the row is one-hot, and its dS is 0
        assert not checks["dq"].passed
        assert not checks["dbias"].passed


def test_scores_that_rounding_decides_may_fall_either_way_and_no_further() -> None:
    """Two scores of 1e9 that differ by less than single precision holds: either value, or their mean, but nothing as far as that."""
    problem = Problem.from_cli("-H 1 -s 1 --seqlen-k 64 -d 32 --dtype fp32 --scale 1 --lse")
    inputs = fill(problem, "normal", 1)
    inputs["q"][...], inputs["k"][...] = 0, 0
    inputs["q"][..., 0] = 1e5
    inputs["k"][..., 0] = np.linspace(0, 1, 64)
    inputs["k"][0, 0, :2, 0] = (1e4, np.nextafter(np.float32(1e4), np.float32(2e4)))
    reference, v = forward(problem, inputs), inputs["v"][0, 0]
    judged = {
        name: compare(problem, value.reshape(1, 1, 1, 32).astype(np.float32), None, reference).verdict
        for name, value in (
            ("first", v[0]),
            ("second", v[1]),
            ("mean", (v[0] + v[1]) / 2),
            ("far", 4 * v[2]),
            ("zero", 0 * v[0]),
        )
    }
    assert [name for name, verdict in judged.items() if verdict is Verdict.WRONG] == ["far", "zero"], judged


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("sink", [15.0, 30.0, 45.0, 80.0, 120.0, 3e4])
def test_learned_sinks_above_the_scores(dtype: str, sink: float) -> None:
    """All exponents are as large as the sink, and so is their rounding: 3e-7 of the row at 30, in single precision."""
    problem = Problem.from_cli(f"-H 2 -s 16 -d 20 --dtype {dtype} --sink-logits filled --direction fwd+bwd")
    inputs = fill(problem, "normal", 1)
    for name in ("q", "k", "v"):
        inputs[name] = round_to(inputs[name].astype(np.float32) * 1e-3, Element.of(problem.dtype))
    inputs["sink_logits"] = np.array([sink, 0.5], inputs["sink_logits"].dtype)
    reference, gradients = forward(problem, inputs), backward(problem, inputs)
    for style in STYLES:
        honest = model_forward(problem, inputs, style=style)
        judged = compare(problem, honest.o, honest.lse, reference)
        assert all(check.passed for _, check in judged.checks), judged
        judged = compare_gradients(problem, model_backward(problem, inputs, style=style), gradients)
        assert all(check.passed for _, check in judged.checks), judged
    if dtype == "fp32" and sink < 80:  # then a thousandth of an exponent is an error
        for wrong in (honest.o * np.float32(1 + 1e-4), 0 * honest.o):
            assert compare(problem, wrong, None, reference).verdict is Verdict.WRONG


@pytest.mark.parametrize("name", ["k", "v"])
@pytest.mark.parametrize("hides", ["mask", "bias"])
def test_what_a_hidden_key_holds_moves_no_budget(name: str, hides: str) -> None:
    line = f"{SMALL} --dtype fp32 --direction bwd --lse"
    problem = Problem.from_cli(f"{line} --causal" if hides == "mask" else f"{line} --bias elementwise --dbias")
    inputs = fill(problem, "normal", 3)
    if hides == "bias":
        inputs["bias"][..., -1] = -np.inf
        inputs["bias"][..., -1, -1] = 0  # the last row alone sees the last key, as under the mask
    found = []
    for size in (1.0, 1e30, np.nan):
        changed = {key: x.copy() for key, x in inputs.items()}
        changed[name][:, :, -1] = size
        with np.errstate(all="ignore"):
            one, grads = forward(problem, changed), backward(problem, changed)
        found.append((one.part(0, 1), grads))
    rows = np.flatnonzero(found[0][0].rows.i < 39)
    for one, grads in found[1:]:
        for field in ("o", "lse", "noise", "reach", "swing", "width", "visible"):
            np.testing.assert_array_equal(getattr(one, field)[rows], getattr(found[0][0], field)[rows])
        for kind in ("noise", "swing", "lost", "widths"):
            np.testing.assert_array_equal(
                getattr(grads, kind)["dq"][:, :, :39], getattr(found[0][1], kind)["dq"][:, :, :39]
            )
        np.testing.assert_array_equal(grads.dq[:, :, :39], found[0][1].dq[:, :, :39])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "line", [BIASED, f"{BIASED} --causal", f"{BIASED} --softcap 3 --sink-logits filled", f"{BIASED} --dropout 0.2"]
)
def test_a_bias_of_minus_infinity_hides_its_key(line: str, value: float) -> None:
    problem = Problem.from_cli(f"{line} --dtype fp32 --direction fwd+bwd")
    inputs = fill(problem, "normal", 9)
    inputs["bias"][:, :, :, [2, 30]] = -np.inf
    inputs["bias"][:, 1, 5] = -np.inf  # a row that sees nothing
    clean = forward(problem, inputs), backward(problem, inputs)
    for name in ("k", "v"):
        inputs[name][:, :, [2, 30]] = value
    with np.errstate(all="ignore"):
        reference, gradients = forward(problem, inputs), backward(problem, inputs)
        honest = model_forward(problem, inputs)
        faulty = model_forward(problem, inputs, fault=ExtremeFault.BIASED_KEY)
        honest_back = model_backward(problem, inputs)
        faulty_back = model_backward(problem, inputs, fault=ExtremeFault.BIASED_KEY)
    for field in ("o", "lse", "noise", "reach", "visible", "width"):
        np.testing.assert_array_equal(getattr(reference, field), getattr(clean[0], field))
    at = 40 + 5
    assert not reference.o[at].any()
    assert reference.visible[at] == 0
    assert np.isneginf(reference.lse[at]) or problem.sink_logits
    assert compare(problem, honest.o, honest.lse, reference).verdict is Verdict.PASSED
    assert compare(problem, faulty.o, faulty.lse, reference).verdict is Verdict.WRONG
    for name in ("dq", "dk", "dv", "dbias"):
        np.testing.assert_array_equal(getattr(gradients, name), getattr(clean[1], name))
    assert not gradients.dq[0, 1, 5].any()
    for gradient in (gradients.dk[:, :, [2, 30]], gradients.dv[:, :, [2, 30]], gradients.dbias[..., [2, 30]]):
        assert not gradient.any()
    assert compare_gradients(problem, honest_back, gradients).verdict is Verdict.PASSED
    assert any(not np.array_equal(faulty_back[name], honest_back[name]) for name in honest_back)


def test_a_row_without_a_visible_key_proves_as_little_as_under_a_mask() -> None:
    """With every bias -inf, zero is the only right answer, and a pass is trusted."""
    problem = Problem.from_cli(f"{SMALL} --dtype fp32 --bias elementwise --lse")
    inputs = fill(problem, "normal", 9)
    inputs["bias"][...] = -np.inf
    honest = model_forward(problem, inputs)
    found = compare(problem, honest.o, honest.lse, forward(problem, inputs))
    assert (found.verdict, found.distrust) == (Verdict.PASSED, None)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_pair_without_weight_adds_nothing_to_gradients_although_its_key_is_infinite(sign: int) -> None:
    """An infinite K whose scores are -inf has weights of 0: no 0 * inf in dQ. NaN is accepted, as kernels multiply whole tiles."""
    problem = Problem.from_cli("-H 1 -s 8 -d 16 --dtype fp32 --direction bwd")
    inputs = fill(problem, "normal", 9)
    inputs["q"][..., 3] = np.abs(inputs["q"][..., 3]) + 1
    clean = dict(inputs, k=inputs["k"].copy())
    clean["k"][0, 0, 5, 3] = -1e30
    inputs["k"][0, 0, 5, 3] = sign * -np.inf
    with np.errstate(all="ignore"):
        gradients, honest = backward(problem, inputs), model_backward(problem, inputs)
    if sign < 0:  # scores of +inf: inf - inf in every row
        assert np.isnan(gradients.dq).all()
        return
    finite = backward(problem, clean)
    for name in ("dq", "dk", "dv"):
        np.testing.assert_allclose(getattr(gradients, name), getattr(finite, name))
    for spoiled in (honest["dq"][..., 3], np.nan):
        dq = honest["dq"].copy()
        dq[..., 3] = spoiled
        assert compare_gradients(problem, dict(honest, dq=dq), gradients).verdict is Verdict.PASSED
    for wrong in (np.inf, 7.0):
        dq = honest["dq"].copy()
        dq[..., 3] = wrong
        assert compare_gradients(problem, dict(honest, dq=dq), gradients).verdict is Verdict.WRONG


@pytest.mark.parametrize("kind", ["scale", "tiny", "size", "lowest", "huge", "hidden", "sinks"])
@pytest.mark.parametrize(
    "flags", ["", "--causal --kv-heads 1", "--mask window:4,2 --sink 1 --dropout 0.2", "--softcap 4"]
)
def test_the_reference_agrees_with_the_formula_element_by_element(flags: str, kind: str) -> None:
    more = "--sink-logits filled" if kind == "sinks" else "--scale -1e20" if kind == "scale" else ""
    problem = Problem.from_cli(f"-H 2 -s 7 --seqlen-k 11 -d 8 --dtype fp32 --bias elementwise {flags} {more}")
    inputs = fill(problem, "normal", 4)
    for name in ("q", "k"):
        inputs[name] *= np.float32({"tiny": 1e-15, "size": 1e17}.get(kind, 1))
    if kind == "lowest":
        inputs["bias"][..., 3, :] = np.finfo(np.float32).min
    elif kind == "huge":
        inputs["bias"][..., 3, 4] = 3e38
    elif kind == "hidden":
        inputs["bias"][..., [1, 6]] = inputs["bias"][..., 2, :] = -np.inf
        inputs["k"][:, :, [1, 6]], inputs["v"][:, :, [1, 6]] = np.nan, np.inf
    elif kind == "sinks":
        inputs["sink_logits"] = np.array([3.4e38, -3.4e38], np.float32)
    reference = forward(problem, inputs)
    for n, (o, lse) in enumerate(attention(problem, inputs).values()):
        np.testing.assert_allclose(reference.o[n], o, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(reference.lse[n], lse, rtol=1e-12)


def test_a_number_that_is_not_finite_takes_no_floor_from_its_row() -> None:
    """NaN in a column of V makes that column NaN; the other elements keep the budget that they have without it."""
    problem = Problem.from_cli(f"{SMALL} --dtype fp32")
    inputs = fill(problem)
    whole = floors(problem, forward(problem, inputs), 32)
    inputs["v"][0, 0, 3, 5] = np.nan
    found = floors(problem, forward(problem, inputs), 32)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, whole, rtol=0.2)


def test_a_dropped_key_of_a_row_of_nan_has_no_part_in_dv() -> None:
    """A bias of +inf makes the row's weights NaN. The weight of a key that dropout drops is 0 all the same."""
    problem = Problem.from_cli(
        "-H 1 -s 8 --seqlen-k 12 -d 16 --dtype fp32 --direction bwd --bias elementwise --dropout 0.5 --seed 7"
    )
    inputs = fill(problem, "normal", 9)
    inputs["bias"][0, 0, 3, 4] = np.inf
    kept = fmha_stream(problem, 0, np.zeros(1, np.int64), np.array([3]), 0, 12)[0]
    assert 0 < kept.sum() < 12
    with np.errstate(all="ignore"):
        gradients = backward(problem, inputs)
    clean = dict(inputs, do=inputs["do"].copy(), bias=inputs["bias"].copy())
    clean["do"][0, 0, 3], clean["bias"][0, 0, 3, 4] = 0, 0
    want = backward(problem, clean).dv[0, 0]
    assert np.isnan(gradients.dv[0, 0, kept]).all()
    np.testing.assert_allclose(gradients.dv[0, 0, ~kept], want[~kept])
    rounded = want + 8e-8 * np.where(np.arange(16) % 2, 1, -1)  # as sums of eight terms of size 1 are
    honest = {"dv": np.where(kept[:, None], np.nan, rounded).astype(np.float32)[None, None]}
    assert compare_gradients(problem, honest, gradients).verdict is Verdict.PASSED
    wrong = {"dv": honest["dv"].copy()}
    wrong["dv"][0, 0, np.flatnonzero(~kept)[0]] *= 1.001
    assert compare_gradients(problem, wrong, gradients).verdict is Verdict.WRONG


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_rows_of_one_weight_below_a_sink_have_one_rounding(dtype: str) -> None:
    """Without scores every P is exp(-sink), here halfway between two numbers of the type: one error in all rows, and no mean of many."""
    eps = {"bf16": 2.0**-8, "fp16": 2.0**-11}[dtype]
    problem = Problem.from_cli(
        f"-H 1 -s 64 --seqlen-k 300 -d 32 --dtype {dtype} --causal --scale 1e-20 --sink-logits filled --lse"
    )
    inputs = fill(problem, "normal", 3)
    inputs["v"][...] = np.abs(inputs["v"].astype(np.float32)).astype(inputs["v"].dtype)
    inputs["sink_logits"][:] = -np.log(0.125 * (1 + 1.02 * eps))
    reference = forward(problem, inputs)
    for style in STYLES:
        honest = model_forward(problem, inputs, style=style)
        judged = compare(problem, honest.o, honest.lse, reference)
        assert all(check.passed for _, check in judged.checks), judged
        assert dict(judged.checks)["o"].rms > 0.9 * eps
    assert compare(problem, honest.o * (1 + 2 * eps), None, reference).verdict is Verdict.WRONG


def test_products_of_dp_that_cancel_below_a_sink_keep_their_rounding() -> None:
    """Where a sink takes all weight, O and D are nearly 0, and dS is P dP alone: a dP that cancels has the error of its products."""
    problem = Problem.from_cli(
        "-H 1 -s 16 -d 32 --dtype fp32 --direction bwd --bias elementwise --dbias --sink-logits filled"
    )
    inputs = fill(problem, "normal", 3)
    inputs["sink_logits"][:] = 34
    do, v = (inputs[name][0, 0].astype(np.float64) for name in ("do", "v"))
    v[5] -= (v[5] @ do[7] / (do[7] @ do[7])) * do[7]
    inputs["v"][0, 0] = v.astype(np.float32)
    gradients = backward(problem, inputs)
    for style in STYLES:
        honest = model_backward(problem, inputs, style=style)
        relative = abs(honest["dbias"][0, 0, 7, 5] / gradients.dbias[0, 0, 7, 5] - 1)
        assert relative > 1e-2
        judged = compare_gradients(problem, honest, gradients)
        assert all(check.passed for _, check in judged.checks), judged
    honest["dbias"][0, 0, 7, 1] *= 1.001
    assert compare_gradients(problem, honest, gradients).verdict is Verdict.WRONG


def test_weights_rounded_towards_zero_may_lose_a_whole_step() -> None:
    """Below a sink of 15 weights in fp16 are subnormal; AMD's conversion takes away up to 2^-24 of each, not half of that."""
    runs = [
        honest_run(seed, DType.FP16, kind, "ck_tile")
        for seed, kind in ((194, "coded"), (1376, "ties"), (2490, "normal"))
    ]
    assert all(run.accepted["all rules"] for run in runs), runs
    assert max(run.element for run in runs) > 0.55
