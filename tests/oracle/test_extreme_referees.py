"""The referees of ``tests/checks/extremes.py``: what they accept, and that they see a lost row, a wrong number and one that is not finite."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from fmha_cli.backends.gpu.known_bad import known_bad
from tests.support.generators.extreme_draws import drawn, plan
from tests.support.generators.extreme_problem import Drawn, Family, Lane, philox
from tests.support.referees.attention import DOUBLE, Answer, apart, formula, precision_of, torch_values
from tests.support.referees.brute import philox_word
from tests.support.referees.extreme_judging import EMPTY, HIDDEN, LARGE, ROUGH, Judged, judge

LOWEST = float(np.finfo(np.float32).min)


def lane(**changes: object) -> Lane:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, n, 8)) for n in (3, 5, 5))
    none = dict.fromkeys(("bias", "slopes", "sinks", "kept", "do"))
    given = {"q": q, "k": k, "v": v, "sees": np.ones((3, 5), np.bool_), "delta": 2, "scale": 1.0, "softcap": 0.0}
    return Lane(**{**given, **none, **changes})  # type: ignore[arg-type]


def biased(row: float, key: int | slice = slice(None)) -> tuple[Lane, Answer]:
    bias = np.zeros((1, 3, 5))
    bias[0, 1, key] = row
    one = lane(bias=bias)
    return one, formula(one, precision_of("fp32"))


def test_a_row_of_one_large_bias_is_that_keys_value() -> None:
    one, answer = biased(1e20, 3)
    np.testing.assert_array_equal(answer.values["o"][0, 1], one.v[0, 3])
    assert answer.values["lse"][0, 1] == 1e20
    assert not answer.open.any()
    assert (answer.slack["o"][0, 1] < 1e-5).all()


def test_a_row_of_a_padding_mask_is_open_and_never_zero() -> None:
    """The softmax of the scores and the mean of V are both right: single precision cannot hold a score in addition to
    such a bias.
    """
    one, answer = biased(LOWEST)
    assert answer.open.tolist() == [[False, True, False]]
    for right in (answer.values["o"][0, 1], one.v[0].mean(axis=0)):
        assert not apart(right, answer.values["o"][0, 1], answer.slack["o"][0, 1]).any()
    assert apart(9 * one.v[0, 0], answer.values["o"][0, 1], answer.slack["o"][0, 1]).any()
    assert not answer.zero[0, 1]


def test_a_bias_of_minus_infinity_leaves_an_empty_row() -> None:
    _, answer = biased(-np.inf)
    assert not answer.values["o"][0, 1].any()
    assert np.isneginf(answer.values["lse"][0, 1])
    assert answer.zero[0, 1]


def test_the_words_of_dropout_are_those_of_the_stream() -> None:
    i, j = np.indices((3, 9), np.uint64)
    words = philox(2**40 + 5, (j >> np.uint64(2), i, np.full_like(i, 6)), 11)
    for row in range(3):
        for key in range(9):
            assert words[key & 3][row, key] == philox_word(2**40 + 5, 11, key >> 2, row, 6, key & 3)


PROBLEMS = list(plan(3, 70_000, list(Family), ("fp32", "bf16", "fp16")))


def right_outputs(problem: Drawn) -> dict[str, np.ndarray]:
    """The formula's values as the product would return them."""
    answers = [formula(one, precision_of(problem.dtype)).values for one in problem.lanes]
    packed, bshd = "seqlens_q" in problem.flags, problem.flags.get("layout") == "bshd"
    out = {}
    for name in answers[0].keys() & {"o", "lse", "dq", "dk", "dv"}:
        parts = [x[name].swapaxes(0, 1) if bshd and name != "lse" else x[name] for x in answers]
        axis = 0 if bshd and name != "lse" else 1
        out[name] = np.concatenate(parts, axis=axis) if packed else np.stack(parts)
    return out


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(("number", "family", "dtype"), PROBLEMS)
def test_a_spoiled_row_is_seen(number: int, family: Family, dtype: str) -> None:
    problem = drawn(number, family, dtype)
    outputs = right_outputs(problem)

    def found(outputs: dict[str, np.ndarray]) -> Judged:
        return judge(Judged(problem, "", "PASSED"), outputs, reports=(), on_gpu=False, torch=False)

    assert found(outputs).outcome == "right"
    rng = np.random.default_rng(number)
    for name in outputs:
        flat = outputs[name].reshape(-1, *([] if name == "lse" else outputs[name].shape[-1:]))
        some = np.flatnonzero(
            np.isfinite(flat) if name == "lse" else np.isfinite(flat).all(-1) & (np.abs(flat).max(-1) > 1e-20)
        )
        if not len(some) or name in ("dq", "dk"):  # in rows of one key they are nothing but rounding
            continue
        for spoil in (lambda x: x * np.nan, lambda x: x + 1e38 + np.abs(x)):
            wrong = {key: x.copy() for key, x in outputs.items()}
            row = int(rng.choice(some))
            wrong[name].reshape(flat.shape)[row] = spoil(flat[row])
            assert found(wrong).wrong[name] == 1
    if "o" in outputs and problem.lanes[0].kept is None and problem.lanes[0].sinks is None:
        wrong = {**outputs, "o": np.zeros_like(outputs["o"])}
        seen = sum(int((~formula(one, precision_of(dtype)).zero).sum()) for one in problem.lanes)
        assert found(wrong).wrong["o"] == seen > 0


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed (extra: peers)")
@pytest.mark.parametrize(("number", "family", "dtype"), PROBLEMS)
def test_pytorch_and_the_formula_agree(number: int, family: Family, dtype: str) -> None:
    for one in drawn(number, family, dtype).lanes:
        exact = formula(one, DOUBLE)
        for name, x in torch_values(one).items():
            if name in exact.values:
                assert not apart(x, exact.values[name], exact.slack[name]).any(), name


def by_report(problem: Drawn, outputs: dict[str, np.ndarray], words: str) -> Judged:
    """What is said of outputs whose verdict is WRONG, with one report about the kernel."""
    reports = [report for report in known_bad("ck_tile") if words in report.what][:1]
    return judge(Judged(problem, "gfx942", "WRONG"), outputs, reports=reports, on_gpu=True, torch=False)


def spoiled(problem: Drawn, name: str, value: float) -> dict[str, np.ndarray]:
    """Right outputs, but for one row of the first head."""
    outputs = right_outputs(problem)
    outputs[name] = outputs[name].copy()
    outputs[name][0, 0, 5] = value
    return outputs


@pytest.mark.parametrize(
    ("words", "known", "unknown"),
    [(LARGE, (np.nan, np.inf, 0.0), (1e3,)), (HIDDEN, (), (np.nan,)), (EMPTY, (), (np.nan, 0.0))],
)
def test_a_report_explains_only_what_it_says(words: str, known: tuple[float, ...], unknown: tuple[float, ...]) -> None:
    """Large scores lose a row, or make it too small; no report makes it larger than V, and one about a bias needs a bias."""
    problem = drawn(50, Family.PREFILL, "bf16", plain=True)
    assert min(formula(one, precision_of("bf16")).top.min() for one in problem.lanes) > 1.4e9
    for value in known:
        found = by_report(problem, spoiled(problem, "o", value), words)
        assert (found.outcome, found.known, found.wrong) == ("known hazard", {words: 1}, {"o": 1})
    for value in unknown:
        found = by_report(problem, spoiled(problem, "o", value), words)
        assert (found.outcome, found.unknown) == ("unexplained", {"o": 1})


def test_gradients_may_be_as_rough_as_their_lse_and_no_more() -> None:
    """The LSE of these rows is up to 1e5: P is off by 2 %, never by half of itself."""
    problem = drawn(8, Family.BACKWARD, "fp16", plain=True)
    (one, *_) = problem.lanes
    answer = formula(one, precision_of("fp16"))
    assert 1e3 < np.abs(answer.values["lse"]).max() < 1e6
    outputs = right_outputs(problem)
    for share, outcome in ((0.9, "known hazard"), (3.0, "unexplained")):
        wrong = {name: x.copy() for name, x in outputs.items()}
        wrong["dv"][0, :, 5] += share * answer.rough["dv"][:, 5]
        assert by_report(problem, wrong, ROUGH).outcome == outcome
