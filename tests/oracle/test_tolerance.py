"""The rules accept correct kernels and name the errors of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.oracle.budgets import budget_of
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.measure import row_errors
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tolerance import compare, worst_column
from tests.support.models.faults import ExtremeFault, Fault
from tests.support.models.kernel_model import Style, model_forward

pytestmark = pytest.mark.promise("README: its share of what rounding may cause")

BASE = "-b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 150 -d 32 --lse"
RICH = {
    Fault.WINDOW_SIDE: f"{BASE} --mask window:40,10",
    Fault.DROPOUT_INVERTED: f"{BASE} --dropout 0.25 --seed 5",
    Fault.ALIBI_SIGN: f"{BASE} --alibi",
    Fault.MASK_OFF_BY_ONE: f"{BASE} --causal",
    Fault.V_COLUMNS: f"{BASE} --mla-rope 8",
    ExtremeFault.SCALED_MAXIMUM: f"{BASE} --scale 1e10",
}


def judged(line: str, kind: str = "normal", fault: Fault | ExtremeFault | None = None, tile: int = 16) -> Comparison:
    problem = Problem.from_cli(line)
    inputs = fill(problem, kind, 7)
    got = model_forward(problem, inputs, fault=fault, style=Style(tile=tile))
    return compare(problem, got.o, got.lse if problem.lse else None, forward(problem, inputs), fill=kind)


@pytest.mark.promise("Honest kernels pass the rules of judging.")
@pytest.mark.parametrize("kind", FILLS)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp16:fp32"])
def test_honest_runs_pass(dtype: str, kind: str) -> None:
    comparison = judged(f"{BASE} --dtype {dtype} --causal", kind)
    assert comparison.verdict is Verdict.PASSED, comparison
    assert [name for name, _ in comparison.checks] == ["o", "lse"]


@pytest.mark.promise("Random problems pass against the float64 reference, and planted faults fail.")
@pytest.mark.sampled(10, ci="all")
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("fault", [*Fault, ExtremeFault.SCALED_MAXIMUM])
def test_faults_are_caught(fault: Fault | ExtremeFault, dtype: str) -> None:
    comparison = judged(f"{RICH.get(fault, BASE)} --dtype {dtype}", fault=fault)
    assert comparison.verdict is Verdict.WRONG, comparison


def test_nan_is_counted_and_named() -> None:
    comparison = judged(f"{BASE} --dtype fp16", fault=Fault.NAN_ROW)
    check = dict(comparison.checks)["o"]
    assert check.nonfinite == 2 * 32
    assert check.worst is not None
    assert check.worst.endswith("h=3, i=69)")
    assert "not finite" in comparison.notes[0]


def test_coded_names_the_missing_and_the_extra_key() -> None:
    missing = judged("-H 1 -s 20 --seqlen-k 40 -d 32 --dtype fp16", "coded", Fault.LAST_KEY_DROPPED)
    assert "key j=39 is missing" in missing.notes[0]
    extra = judged("-H 1 -s 40 -d 32 --dtype fp16 --causal", "coded", Fault.MASK_OFF_BY_ONE)
    assert "counts too much" in " ".join(extra.notes)


def test_rows_in_the_wrong_place_are_named() -> None:
    problem = Problem.from_cli("-H 2 -s 8 -d 16 --dtype bf16")
    inputs = fill(problem)
    reference = forward(problem, inputs)
    o = model_forward(problem, inputs).o
    o[0, 1, 3] = o[0, 0, 5]
    notes = compare(problem, o, None, reference).notes
    assert notes == ("row (b=0, h=1, i=3) holds the answer of row (b=0, h=0, i=5)",)


def test_lse_must_be_minus_infinity_exactly_where_a_row_sees_nothing() -> None:
    problem = Problem.from_cli("-H 1 -s 6 --seqlen-k 4 -d 8 --dtype fp32 --causal --lse")
    inputs = fill(problem)
    reference, got = forward(problem, inputs), model_forward(problem, inputs)
    assert np.isneginf(got.lse[0, 0, :2]).all()
    assert compare(problem, got.o, got.lse, reference).verdict is Verdict.PASSED
    for wrong in (np.inf, np.nan, -1e30):
        lse = got.lse.copy()
        lse[0, 0, 1] = wrong
        assert compare(problem, got.o, lse, reference).verdict is Verdict.WRONG


def test_unsupported_dtype_has_no_budget() -> None:
    problem = Problem.from_cli("-s 4 -d 8 --dtype fp8_e5m2 --direction bwd")
    with pytest.raises(UnsupportedError, match="dq in fp8_e5m2"):
        budget_of(problem, "dq")


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("-H 2 -s 16 -d 16 --scale 3000", "normal", "one-hot"),
        ("-H 2 -s 16 -d 16 --dropout 0.9999999", "normal", "zero"),
        ("-H 2 -s 16 --seqlen-k 1 -d 16", "normal", None),
        ("-H 2 -s 1 -d 16 --seqlen-k 2", "large", None),
        ("-H 2 -s 16 --seqlen-k 0 -d 16", "normal", None),
    ],
)
def test_distrust(line: str, kind: str, reason: str | None) -> None:
    distrust = judged(line, kind).distrust
    assert (distrust is None) if reason is None else (distrust is not None and reason in distrust)


def test_flat_values_are_distrusted() -> None:
    problem = Problem.from_cli("-H 2 -s 16 -d 16")
    inputs = fill(problem)
    inputs["v"][...] = inputs["v"][:, :, :1]
    reference = forward(problem, inputs)
    comparison = compare(problem, model_forward(problem, inputs).o, None, reference)
    assert comparison.verdict is Verdict.MISTRUSTED
    assert "rows of V are equal" in str(comparison.distrust)


def test_overflow_of_the_output_type_is_expected() -> None:
    problem = Problem.from_cli("-H 1 -s 4 -d 8 --dtype bf16:fp16")
    inputs = fill(problem)
    inputs["v"][..., 0] = 1e6
    got = model_forward(problem, inputs)
    assert np.isinf(got.o[..., 0]).all()
    assert compare(problem, got.o, None, forward(problem, inputs)).verdict is Verdict.PASSED


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_cache_after_an_append(dtype: str) -> None:
    line = f"-b 2 -H 2 -s 1 -d 16 --kv-cache paged:4 --cache-seqlens 6,2 --append 2 --rotary 16 --dtype {dtype}"
    problem = Problem.from_cli(line)
    inputs = fill(problem)
    reference, o = forward(problem, inputs), model_forward(problem, inputs).o
    table = inputs["block_table"]

    def verdict(name: str, page: int, slot: int, value: float) -> Verdict:
        cache = {key: x.copy() for key, x in reference.cache.items()}
        cache[name][page, slot, 0, 3] = value
        return compare(problem, o, None, reference, cache=cache).verdict

    near = float(reference.cache["k"][table[0, 1], 3, 0, 3]) * (1 + {"fp32": 1e-7, "fp16": 4e-4, "bf16": 4e-3}[dtype])
    assert verdict("k", table[0, 1], 3, near) is Verdict.PASSED  # a different rounding of the rotated key
    assert verdict("k", table[0, 1], 3, near + 0.5) is Verdict.WRONG
    assert verdict("v", table[1, 0], 2, 9.0) is Verdict.WRONG
    assert verdict("k", table[1, 0], 0, 9.0) is Verdict.WRONG  # an old key was overwritten
    unused = next(n for n in range(len(inputs["k"])) if n not in table)
    assert verdict("k", unused, 0, 0.0) is Verdict.WRONG  # written outside the new rows


def test_a_wrong_cache_says_which_row() -> None:
    problem = Problem.from_cli("-b 2 -H 2 -s 1 -d 16 --kv-cache paged:4 --cache-seqlens 6,2 --append 2 --dtype fp16")
    inputs = fill(problem)
    reference, o = forward(problem, inputs), model_forward(problem, inputs).o
    cache = {key: x.copy() for key, x in reference.cache.items()}
    cache["v"][3, 2, 1] = 4
    cache["v"][1, 0, 0, 5] += 1
    found = compare(problem, o, None, reference, cache=cache)
    rows = cache["v"].size // 16
    assert found.notes == (
        f"v after the append is wrong: 2 of {rows} rows differ from the reference; the worst is v[3, 2, 1]",
    )
    assert compare(problem, o, None, reference, cache=dict(reference.cache)).notes == ()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("kind", FILLS)
def test_rotated_queries_of_16_bits_pass_and_queries_rotated_for_the_next_position_do_not(
    dtype: str, kind: str
) -> None:
    line = f"-b 2 -H 4 -s 4 -d 64 --dtype {dtype} --kv-cache linear --cache-seqlens 90,3 --append 4 --rotary 64 --lse"
    problem = Problem.from_cli(line)
    inputs = fill(problem, kind, 3)
    reference = forward(problem, inputs)
    honest = model_forward(problem, inputs)
    assert compare(problem, honest.o, honest.lse, reference, fill=kind).verdict is Verdict.PASSED
    moved = dict(inputs, q=np.concatenate([inputs["q"][:, :, 1:], inputs["q"][:, :, :1]], axis=2))
    shifted = model_forward(problem, moved)
    o, lse = (np.concatenate([x[:, :, -1:], x[:, :, :-1]], axis=2) for x in (shifted.o, shifted.lse))
    assert compare(problem, o, lse, reference, fill=kind).verdict is Verdict.WRONG


def test_lse_of_alibis_shifted_form_may_keep_the_rounding_of_its_size() -> None:
    problem = Problem.from_cli("-b 1 -H 2 -s 8 --seqlen-k 3000 -d 32 --causal --alibi-slopes filled:h --lse")
    inputs = fill(problem, "normal", 2)
    reference, honest = forward(problem, inputs), model_forward(problem, inputs)
    lift = inputs["alibi_slopes"][None, :, None] * (np.arange(8) + 2992).astype(np.float32)
    rounding = np.spacing(lift)  # up to two steps of single precision

    def verdict(lse: np.ndarray) -> Verdict:
        return compare(problem, honest.o, lse, reference).verdict

    assert rounding.max() > 1e-4
    assert verdict(honest.lse + rounding) is Verdict.PASSED
    assert verdict(honest.lse + 8 * rounding) is Verdict.WRONG
    assert verdict(honest.lse + lift) is Verdict.WRONG


def test_lse_may_keep_the_rounding_of_large_scores_that_alibi_cancels() -> None:
    """A float32 sum of the products in order. The row is one whose LSE is a thousandth of its scores' bound."""
    problem = Problem.from_cli(
        "-b 3 -H 16 --kv-heads 2 -s 148 --seqlen-k 25 -d 192 --mask window-tl:285,266 --alibi-slopes filled:bh --lse"
    )
    inputs = fill(problem, "large", 23)
    reference = forward(problem, inputs)
    row = int(np.argmin(np.abs(reference.lse) / reference.reach))
    error = 2.2 * 2.0**-24 * reference.reach[row]
    assert error > 1.2e-5 * (1 + abs(reference.lse[row]))
    for times, verdict in ((1, Verdict.PASSED), (3, Verdict.WRONG)):
        lse = reference.lse.copy()
        lse[row] += times * error
        got = replace(reference, lse=lse)
        o = got.o_tensor(problem).astype(np.float16)
        assert compare(problem, o, got.lse_tensor(problem), reference, fill="large").verdict is verdict


def test_a_wrong_row_whose_answer_is_0_counts_for_the_mean_of_errors() -> None:
    """With one visible key dS is 0 but for rounding: a few rows that are not exactly 0 are not the whole sample."""
    expected, floor = np.zeros((100, 4)), np.ones(100)
    expected[0] = 1e-18
    found = row_errors(np.full((100, 4), 1e-3), expected, floor, 6e4)
    assert found.counted == 100
    assert found.rms == pytest.approx(2e-3)
    assert row_errors(np.zeros((100, 4)), np.zeros((100, 4)), floor, 6e4).counted == 0


def test_rows_with_one_answer_count_once_for_the_mean_of_errors() -> None:
    """With scale 0, every row is the mean of V, and all rows of a sequence and head have one error."""

    def judged_with(line: str, rms: float) -> tuple[Verdict, bool]:
        """The verdict, and whether the mean alone refuses it, for errors of that root mean square in units of eps."""
        problem = Problem.from_cli(f"{line} -b 2 -H 2 -s 47 -d 16 --dtype fp32")
        reference = forward(problem, fill(problem, "normal", 1))
        o, one = reference.o_tensor(problem), 2.0**-24
        unit = dict(compare(problem, o * (1 + one), None, reference).checks)["o"].rms
        assert unit
        found = compare(problem, o * (1 + rms * one * one / unit), None, reference)
        check = dict(found.checks)["o"]
        return found.verdict, check.row_l2 <= check.row_l2_budget

    assert judged_with("--scale 0", 1.3) == (Verdict.PASSED, True)
    assert judged_with("--scale 0", 1.9) == (Verdict.WRONG, True)
    assert judged_with("", 1.3) == (Verdict.WRONG, True)


@pytest.mark.parametrize(
    ("got", "want", "column"),
    [
        ([1.0, 2.5, 3.0], [1.0, 2.0, 2.9], 1),
        ([1.0, 9.0, np.nan], [1.0, 2.0, 3.0], 2),
        ([np.inf, np.nan, 3.1], [np.inf, np.nan, 3.0], 2),
        ([np.inf, 3.1], [-np.inf, 3.0], 0),
    ],
)
def test_the_column_of_the_worst_error(got: list[float], want: list[float], column: int) -> None:
    """An element of another kind is the worst; equal infinities and NaN are no error."""
    assert worst_column(np.array(got, np.float32), np.array(want)) == column


def test_a_comparison_names_the_column_of_its_worst_row() -> None:
    check = dict(judged(f"{BASE} --dtype fp16", fault=Fault.NAN_ROW).checks)
    assert check["o"].column is not None
    assert 0 <= check["o"].column < 32
    assert check["lse"].column is None
