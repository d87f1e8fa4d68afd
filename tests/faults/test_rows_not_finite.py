"""Inputs that hold NaN or infinities: the output must be NaN or infinite where the formula is, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.measure import nonfinite_elements
from fmha_cli.oracle.reference import forward, squares
from fmha_cli.oracle.tensors import Array, Inputs
from fmha_cli.oracle.tolerance import compare, compare_gradients
from fmha_cli.run.cases import Cases
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy
from fmha_cli.run.records import Outcome
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.modelled_backend import ENTRY, Slip, modelled_plan
from tests.support.fault_rows import DEVICE, judged
from tests.support.models.kernel_model import model_forward
from tests.support.models.kernel_model_backward import model_backward

FLAGS = "-b 1 -H 2 -s 12 -d 16 --dtype {} --causal --lse"
TYPES = ["fp32", "fp16", "bf16"]


def planted(problem: Problem, name: str, at: tuple[int | slice, ...], value: float) -> dict[str, Array]:
    inputs = fill(problem)
    inputs[name][at] = value
    return inputs


def honest(problem: Problem, inputs: Inputs) -> tuple[Array, Array, Comparison]:
    with np.errstate(invalid="ignore"):
        got = model_forward(problem, inputs)
    return got.o, got.lse, compare(problem, got.o, got.lse, forward(problem, inputs))


def row(any_supervisor: Supervisor, inputs: Inputs, slip: Slip = Slip.NONE, oracle_s: float = 10.0) -> Outcome:
    plan = modelled_plan(Problem.from_cli(FLAGS.format("fp16")), slip)
    shared = Cases(lambda problem, kind: inputs, oracle_s=oracle_s)
    job = WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=())
    return judged(any_supervisor, job, JudgePolicy(timeout=60.0), shared)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_nan_in_q_is_no_error_of_the_kernel(any_supervisor: Supervisor, value: float) -> None:
    problem = Problem.from_cli(FLAGS.format("fp16"))
    found = row(any_supervisor, planted(problem, "q", (0, 1, 5, 3), value))
    assert found.verdict is Verdict.PASSED, (found.notes, found.comparisons)
    assert found.comparisons[0].notes == ("inputs hold 1 non-finite value",)
    assert np.isnan(found.outputs["o"][0, 1, 5].astype(np.float32)).all()


@pytest.mark.promise("Values that are not finite are compared by place, and an empty answer proves nothing.")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("name", "value"), [("q", np.nan), ("k", np.nan), ("v", np.nan), ("v", np.inf), ("v", -np.inf)]
)
def test_non_finite_values_must_be_where_the_formula_has_them(dtype: str, name: str, value: float) -> None:
    problem = Problem.from_cli(FLAGS.format(dtype))
    inputs = planted(problem, name, (0, 1, 5, 3), value)
    o, lse, comparison = honest(problem, inputs)
    assert comparison.verdict is Verdict.PASSED, comparison
    reference = forward(problem, inputs)
    bad = np.argwhere(~np.isfinite(reference.o_tensor(problem)))
    good = np.argwhere(np.isfinite(reference.o_tensor(problem)) & ~np.zeros_like(o, bool))
    assert len(bad)
    hidden = o.copy()
    hidden[tuple(bad[0])] = 0
    assert compare(problem, hidden, lse, reference).verdict is Verdict.WRONG, "finite where it must not be"
    head_0 = next(at for at in good if at[1] == 0)
    spread = o.copy()
    spread[tuple(head_0)] = np.nan
    assert compare(problem, spread, lse, reference).verdict is Verdict.WRONG, "NaN in another head"
    wrong = o.copy()
    wrong[tuple(head_0)] = 5
    assert compare(problem, wrong, lse, reference).verdict is Verdict.WRONG, "values elsewhere count"


def test_the_kind_must_be_right() -> None:
    problem = Problem.from_cli(FLAGS.format("bf16"))
    inputs = planted(problem, "v", (0, 1, 5, 3), np.inf)
    o, lse, comparison = honest(problem, inputs)
    assert comparison.verdict is Verdict.PASSED
    reference, at = forward(problem, inputs), (0, 1, 8, 3)
    assert np.isposinf(reference.o_tensor(problem)[at])
    for value, right in ((np.inf, True), (np.nan, True), (-np.inf, False)):
        o[at] = value
        assert (compare(problem, o, lse, reference).verdict is Verdict.PASSED) is right, value
    inputs = planted(problem, "v", (0, 1, 5, 3), np.nan)
    o, lse, _ = honest(problem, inputs)
    o[at] = np.inf
    assert compare(problem, o, lse, forward(problem, inputs)).verdict is Verdict.WRONG


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_may_leak_from_a_hidden_v_and_from_nowhere_else(value: float) -> None:
    """Tiles multiply a hidden V by P = 0, and 0 * NaN is NaN. A hidden K is replaced by -inf, so it must not leak."""
    problem = Problem.from_cli(FLAGS.format("fp16"))
    inputs = planted(problem, "v", (0, 1, 5, 3), value)
    reference = forward(problem, inputs)
    o, lse, comparison = honest(problem, inputs)
    assert np.isfinite(reference.o_tensor(problem)[0, 1, :5]).all(), "the formula hides it"
    for leaked in (np.nan, *reference.o_tensor(problem)[0, 1, 2, 3:4]):
        o[0, 1, 2, 3] = leaked
        comparison = compare(problem, o, lse, reference)
        assert comparison.verdict is Verdict.PASSED
        assert any("0 * NaN" in note for note in comparison.notes)
    for at in ((0, 1, 2, 4), (0, 0, 2, 3)):
        other = o.copy()
        other[at] = np.nan
        assert compare(problem, other, lse, reference).verdict is Verdict.WRONG, "another column, another head"
    inputs = planted(problem, "k", (0, 1, 5, 3), value)
    o, lse, _ = honest(problem, inputs)
    o[0, 1, 2, 3] = np.nan
    assert compare(problem, o, lse, forward(problem, inputs)).verdict is Verdict.WRONG


def test_nan_in_storage_that_holds_no_key_must_not_leak() -> None:
    problem = Problem.from_cli("-b 2 -H 2 -s 2 -d 8 --dtype fp16 --kv-cache linear --cache-seqlens 5,9")
    inputs = fill(problem)
    assert np.isnan(inputs["v"].astype(np.float32)).any()
    assert nonfinite_elements(problem, inputs) == 0
    o, _, comparison = honest(problem, inputs)
    assert comparison.verdict is Verdict.PASSED
    assert comparison.notes == ()
    o[0, 0, 0, 0] = np.nan
    assert compare(problem, o, None, forward(problem, inputs)).verdict is Verdict.WRONG


@pytest.mark.promise("Values that are not finite are compared by place, and an empty answer proves nothing.")
@pytest.mark.parametrize("name", ["q", "v"])
def test_an_answer_that_is_nan_everywhere_proves_nothing(any_supervisor: Supervisor, name: str) -> None:
    problem = Problem.from_cli(FLAGS.format("fp16"))
    found = row(any_supervisor, planted(problem, name, (slice(None),), np.nan))
    assert found.verdict is Verdict.MISTRUSTED
    assert any("no element of the right answer is finite" in note for note in found.notes)


def test_a_nan_outside_the_sample_is_still_seen_when_only_unused_storage_is_nan(any_supervisor: Supervisor) -> None:
    problem = Problem.from_cli(
        "-b 1 -H 6 -s 40 -d 8 --dtype fp16 --kv-cache linear --cache-seqlens 30 --cache-leftpad 4"
    )
    plan = modelled_plan(problem, Slip.LAST_ROW_NAN)
    shared = Cases(lambda p, kind: fill(p, kind), oracle_s=1e-9)
    job = WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=())
    found = judged(any_supervisor, job, JudgePolicy(timeout=60.0), shared)
    assert found.verdict is Verdict.WRONG
    assert any("48 of 1920 elements are not finite" in note for note in found.notes)


def test_the_finite_elements_of_a_row_count_towards_its_length() -> None:
    rows = np.array([[1.0, np.nan, 2.0], [3.0, 4.0, 0.0], [np.inf, 0.0, 0.0]])
    np.testing.assert_array_equal(squares(rows), [5, 25, 0])


def test_minus_infinity_in_a_bias_hides_a_key_and_is_no_fault_of_the_data() -> None:
    problem = Problem.from_cli("-H 1 -s 4 -d 8 --bias elementwise")
    inputs = fill(problem)
    inputs["bias"][0, 0, 1, 2] = -np.inf
    assert nonfinite_elements(problem, inputs) == 0
    inputs["bias"][0, 0, 1, 2] = np.nan
    assert nonfinite_elements(problem, inputs) == 1


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["q", "k", "v", "do"])
def test_gradients_of_other_heads_stay_finite(dtype: str, name: str) -> None:
    problem = Problem.from_cli(f"-b 2 -H 4 --kv-heads 2 -s 12 -d 16 --dtype {dtype} --causal --direction bwd")
    inputs = planted(problem, name, (0, 1, 5, 3), np.nan)
    expected = backward(problem, inputs)
    with np.errstate(invalid="ignore"):
        got = model_backward(problem, inputs)
    comparison = compare_gradients(problem, got, expected)
    assert comparison.verdict is Verdict.PASSED, comparison
    assert not np.isfinite(np.concatenate([tensor.ravel() for tensor in (expected.dq, expected.dk, expected.dv)])).all()
    for tensor, value in (("dq", np.nan), ("dv", np.nan), ("dk", 9.0)):
        wrong = {key: array.copy() for key, array in got.items()}
        wrong[tensor][1, 0, 2, 2] = value
        assert compare_gradients(problem, wrong, expected).verdict is Verdict.WRONG


def test_the_padding_of_a_packed_bias_excuses_no_nan() -> None:
    flags = "--seqlens-q 3,4 --seqlens-k 2,5 -H 2 -d 8 --dtype fp32 --direction bwd --bias elementwise:bhss --dbias"
    problem = Problem.from_cli(flags)
    inputs = fill(problem)
    assert np.isnan(inputs["bias"]).any()
    assert backward(problem, inputs).leaks == {}
    inputs["bias"][0, 0, 0, 0] = np.nan
    assert backward(problem, inputs).leaks["dq"].all()


def test_a_hidden_key_gets_no_gradient_from_a_row_that_is_nan() -> None:
    """Row 5 is NaN; keys 6 and later are hidden from it, so the formula leaves their gradients finite."""
    problem = Problem.from_cli("-b 1 -H 1 -s 12 -d 16 --dtype fp32 --causal --direction bwd")
    expected = backward(problem, planted(problem, "q", (0, 0, 5, 3), np.nan))
    for tensor in (expected.dk, expected.dv):
        assert np.isnan(tensor[0, 0, :6]).all()
        assert np.isfinite(tensor[0, 0, 6:]).all()
    assert np.isnan(expected.dq[0, 0, 5]).all()
    assert np.isfinite(np.delete(expected.dq[0, 0], 5, axis=0)).all()


def test_a_nan_of_do_reaches_its_column_of_the_visible_keys() -> None:
    problem = Problem.from_cli("-b 1 -H 1 -s 12 -d 16 --dtype fp32 --causal --direction bwd")
    dv = backward(problem, planted(problem, "do", (0, 0, 5, 3), np.nan)).dv[0, 0]
    assert np.isnan(dv[:6, 3]).all()
    assert np.isfinite(dv[6:]).all()
    assert np.isfinite(np.delete(dv, 3, axis=1)).all()


def test_gradients_that_are_nan_everywhere_prove_nothing() -> None:
    problem = Problem.from_cli("-b 1 -H 2 -s 12 -d 16 --dtype fp32 --direction bwd")
    expected = backward(problem, planted(problem, "do", (slice(None),), np.nan))
    nan = {name: np.full_like(getattr(expected, name), np.nan, dtype=np.float32) for name in ("dq", "dk", "dv")}
    comparison = compare_gradients(problem, nan, expected)
    assert comparison.verdict is Verdict.MISTRUSTED
    assert "no gradient is finite" in str(comparison.distrust)
