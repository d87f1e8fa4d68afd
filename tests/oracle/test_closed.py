"""Closed answers equal the float64 reference, need little memory, and find one wrong row among very many."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import CLOSED_FILLS, Alibi, Bias
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.closed import ClosedAnswer, why_not
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import RowResult, forward
from fmha_cli.oracle.tolerance import compare
from tests.support.generators.closed_fills import Haystack, WrongRow, shown
from tests.support.generators.strategies import problems
from tests.support.models.faults import Fault
from tests.support.models.kernel_model import model_forward

EVERYTHING = "-b 2 -H 6 --kv-heads 2 -d 40 --hdim-v 24 --dtype bf16 --lse "
LINES = [
    f"{EVERYTHING}-s 70 --seqlen-k 90 --causal",
    f"{EVERYTHING}-s 70 --seqlen-k 50 --causal --sink-logits filled",
    f"{EVERYTHING}-s 70 --mask window:9,3 --sink 4 --layout bshd:bhsd",
    f"{EVERYTHING}-s 70 --mask window-tl:0,5 --scale -0.3",
    f"{EVERYTHING}-s 70 --mask generic:5,-3 --layout bshd",
    f"{EVERYTHING}-s 9 --kv-cache paged:16 --cache-seqlens 100,31 --append 3 --rotary 16 --causal",
    f"{EVERYTHING}-s 9 --kv-cache linear --cache-seqlens 100,31 --cache-leftpad 0,7 --layout bshd",
    "--seqlens-q 3,0,40 --seqlens-k 9,5,70 -H 4 -d 24 --lse --layout bshd --mask causal-tl --dtype fp32",
    "-b 2 -H 2 -s 30 -d 32 --lse --dtype fp8_e4m3 --qscale head",
    "-b 2 -H 6 --kv-heads 2 -s 70 --seqlen-k 50 -d 40 --mla-rope 9 --dtype bf16 --lse --causal",
    "-b 2 -H 6 --kv-heads 1 -s 9 -d 40 --mla-rope 9 --dtype bf16 --kv-cache paged:16 --cache-seqlens 100,31 --append 3 --rotary 16",
    "-b 2 -H 4 -s 20 -d 40 --mla-rope 9 --dtype fp8_e4m3 --qscale head --lse",
]


def agrees(problem: Problem, kind: str, seed: int = 0) -> None:
    """The closed answer of every row is that of the reference, and so is the error that it allows."""
    inputs = fill(problem, kind, seed)
    whole = forward(problem, inputs)
    pieces = list(ClosedAnswer(problem, kind, inputs, seed).pieces())
    for f in fields(RowResult):
        parts = [getattr(piece, f.name) for piece in pieces] or [getattr(whole, f.name)]
        found, expected = np.concatenate(parts), getattr(whole, f.name)
        assert found.shape == expected.shape
        if f.name not in ("reach", "width"):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=f.name)
        else:  # bounds by the longest K and V: of all keys here, of the keys that a block of rows sees there
            assert (found >= expected * (1 - 1e-9) - 1e-9).all(), f.name
            assert (found <= 16 * expected + 1e-9).all(), f.name
    for axis in ("b", "h", "i"):
        parts = [getattr(piece.rows, axis) for piece in pieces]
        np.testing.assert_array_equal(np.concatenate([*parts, np.zeros(0, np.int64)]), getattr(whole.rows, axis))


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", CLOSED_FILLS)
def test_every_storage_mask_and_layout_has_its_closed_answer(kind: str, line: str) -> None:
    problem = Problem.from_cli(line)
    assert why_not(problem, kind) is None
    agrees(problem, kind, seed=3)


@pytest.mark.parametrize(
    "line",
    [
        f"{EVERYTHING}-s 30 --seqlen-k 50 --causal --bias elementwise",
        f"{EVERYTHING}-s 30 --seqlen-k 50 --causal --bias elementwise:b11s",
        f"{EVERYTHING}-s 30 --seqlen-k 50 --mask window:9,3 --bias elementwise:1hss --dtype fp16",
        "--seqlens-q 3,0,40 --seqlens-k 9,5,70 -H 4 -d 24 --lse --bias elementwise:bhss --sink-logits filled",
        f"{EVERYTHING}-s 30 --seqlen-k 300 --causal --alibi",
        f"{EVERYTHING}-s 300 --seqlen-k 90 --alibi-slopes filled:bh",
        "-b 2 -H 4 -s 400 --seqlen-k 20 -d 24 --lse --alibi-slopes filled:bh --dtype fp16 --sink-logits filled",
        "-b 2 -H 4 -s 300 --seqlen-k 200 -d 24 --lse --alibi --mask generic:-40,90 --dtype fp16 --sink-logits filled",
    ],
)
def test_a_pointer_adds_the_bias_of_its_key(line: str) -> None:
    problem = Problem.from_cli(line)
    assert why_not(problem, "pointer") is None
    assert "unequal weights" in str(why_not(problem, "means"))
    agrees(problem, "pointer")


@st.composite
def closed_cases(draw: st.DrawFn) -> tuple[Problem, str]:
    """A problem of the whole surface without the features that leave the fill no closed form, and the fill."""
    problem, kind = draw(problems()), draw(st.sampled_from(CLOSED_FILLS))
    problem = replace(problem, dropout=0.0, seed=0, offset=0)
    without = {"bias": Bias.NONE, "alibi": Alibi.NONE} if kind == "means" else {"softcap": 0.0}
    problem = replace(problem, **without)
    if problem.seqlens_q is None:
        problem = replace(problem, seqlen_q=min(problem.seqlen_q, 30))
    assume(why_not(problem, kind) is None)
    return problem, kind


@settings(deadline=None, max_examples=20)
@given(closed_cases(), st.integers(0, 3))
@pytest.mark.slow
@pytest.mark.ci
def test_closed_answers_are_those_of_the_reference(case: tuple[Problem, str], seed: int) -> None:
    agrees(*case, seed)


@settings(deadline=None, max_examples=20)
@given(closed_cases(), st.integers(0, 3))
@pytest.mark.slow
@pytest.mark.ci
def test_honest_kernels_pass(case: tuple[Problem, str], seed: int) -> None:
    problem, kind = case
    assume(problem.dtype is not DType.FP8_E5M2 and problem.dtype_out is not DType.FP8_E5M2)
    inputs = fill(problem, kind, seed)
    answer = ClosedAnswer(problem, kind, inputs, seed)
    got = model_forward(problem, inputs)
    comparison = compare(problem, got.o, got.lse, answer, fill=kind, cache=dict(answer.cache))
    assert all(check.passed for _, check in comparison.checks), comparison
    assert {check.rows for name, check in comparison.checks if name == "o"} == {
        problem.heads * sum(problem.query_lengths())
    }


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("kind", CLOSED_FILLS)
def test_the_fills_complement_each_other(kind: str) -> None:
    """Each planted fault that changes the output of a fill is caught, and each changes that of one fill at least."""
    weights, selection = {Fault.MASK_OFF_BY_ONE}, {Fault.STALE_MAX, Fault.SCALE_WRONG}
    unseen = selection if kind == "means" else weights
    others = set(Fault) - {Fault.LOW_PRECISION_ACC, Fault.ROW_SUM_SHORT, Fault.DROPOUT_INVERTED, Fault.ALIBI_SIGN}
    others |= {Fault.ALIBI_SIGN} if kind == "pointer" else set()
    for fault in sorted(others):
        run = shown(3, DType.FP16, kind, fault)
        assert run is not None
        assert run.caught is run.changed is (fault not in unseen), fault
    assert shown(3, DType.FP16, kind, Fault.DROPOUT_INVERTED) is None, "dropout has no closed answer"


@pytest.mark.promise("A row says which share of its output was judged; fills with known answers judge all of it.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("kind", CLOSED_FILLS)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_one_wrong_row_among_many_is_caught_and_named(kind: str, dtype: str) -> None:
    """16,384 rows here; ``tests/checks/closed_fills.py`` does the same with a million."""
    hay = Haystack(f"-H 4 -s 4k -d 16 --dtype {dtype} --lse --mask window:200,0 --sink 3", kind)
    assert hay.rows == 16384
    assert hay.judged().verdict is Verdict.PASSED
    for n, what in enumerate(WrongRow):
        comparison = hay.with_wrong_row(what, 1 + n % 3, 301 + 511 * n)
        failed = {name: check.worst for name, check in comparison.checks if not check.passed}
        name = "lse" if what is WrongRow.LSE else "o"
        assert failed == {name: f"(b=0, h={1 + n % 3}, i={301 + 511 * n})"}, what


def test_the_closed_answer_needs_no_square_of_the_sequence() -> None:
    problem = Problem.from_cli("-H 2 -s 64k -d 16 --dtype bf16 --causal")
    for kind in CLOSED_FILLS:
        inputs = fill(problem, kind)
        tracemalloc.start()
        for piece in ClosedAnswer(problem, kind, inputs).pieces():
            assert len(piece.rows) <= 1 << 15
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 150e6, kind  # one bit for each pair would take 540 MB


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("-s 8 -d 8 --direction fwd+bwd", "means", "gradients"),
        ("-s 8 -d 8 --dropout 0.1", "pointer", "dropout"),
        ("-s 8 -d 8 --alibi", "means", "ALiBi"),
        ("-s 8 -d 8 --alibi --mask window:3,0 --sink 2", "pointer", "ALiBi"),
        ("-s 8 -d 8 --bias elementwise", "means", "bias"),
        ("-s 8 -d 8 --softcap 9", "pointer", "softcap"),
        ("-s 8 -d 8 --scale 0", "pointer", "scale is 0"),
        ("-s 8 --seqlen-k 257 -d 8", "pointer", "too few directions"),
        ("-s 8 -d 8 --scale 1e-6 --dtype fp16", "pointer", "too large for fp16"),
        (
            "-s 2 -d 32 --dtype fp8_e4m3 --kv-cache paged:16 --cache-seqlens 40 --append 2 --rotary 32",
            "pointer",
            "rotated",
        ),
        ("-s 8 -d 8", "normal", "no closed form"),
    ],
)
def test_why_a_fill_is_not_used(line: str, kind: str, reason: str) -> None:
    assert reason in str(why_not(Problem.from_cli(line), kind))


def test_softcap_and_learned_sinks_keep_the_means_closed() -> None:
    assert why_not(Problem.from_cli("-s 8 -d 8 --softcap 9 --sink-logits filled"), "means") is None


@pytest.mark.parametrize("given", [("q",), ("v",), ("block_table",), ("sink_logits",)])
def test_tensors_from_files_have_no_closed_answer(given: tuple[str, ...]) -> None:
    problem = Problem.from_cli("-s 8 -d 8 --kv-cache paged:16 --cache-seqlens 40")
    assert "from a file" in str(why_not(problem, "pointer", given))
    assert (why_not(problem, "means", given) is None) is (given == ("block_table",))
