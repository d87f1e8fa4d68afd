"""Where the reference covers a sample of the rows: each run is judged on other rows, and closed fills judge every row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import Reference
from fmha_cli.run import judge as judge_module
from fmha_cli.run.cases import Case, Cases
from fmha_cli.run.checks import Outputs, compared
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy
from fmha_cli.run.records import Outcome
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.modelled_backend import ENTRY, Slip, modelled_plan
from tests.support.fault_rows import DEVICE, judged

FLAGS = "-b 1 -H 6 --kv-heads 2 -s 40 -d 16 --dtype fp16 --lse --mask window:20,0"
SAMPLED = JudgePolicy(fills=("normal", "coded"), repeats=2, timeout=60.0)


def row(
    any_supervisor: Supervisor, slip: Slip = Slip.NONE, flags: str = FLAGS, policy: JudgePolicy = SAMPLED, **how: object
) -> Outcome:
    job = WorkerJob(entry=ENTRY, device=DEVICE, plan=modelled_plan(Problem.from_cli(flags), slip), artifacts=())
    cases = Cases(lambda problem, kind: fill(problem, kind, 0), **({"oracle_s": 1e-9} | how))  # type: ignore[arg-type]
    return judged(any_supervisor, job, policy, cases)


def rows_of(found: Outcome) -> dict[str, tuple[int, int | None]]:
    checks = [dict(one.checks)["o"] for one in found.comparisons]
    return {check.fill: (check.rows, check.rows_total) for check in checks}


@pytest.mark.promise("A row says which share of its output was judged; fills with known answers judge all of it.")
@pytest.mark.parametrize("slip", [Slip.ONE_ROW_NEIGHBOURS, Slip.ONE_ROW_LARGE])
def test_a_wrong_row_outside_the_sample_is_found_by_a_closed_fill(any_supervisor: Supervisor, slip: Slip) -> None:
    assert row(any_supervisor, slip).verdict is Verdict.PASSED, "the sample does not hold the row"
    found = row(any_supervisor, slip, policy=replace(SAMPLED, all_rows=True))
    assert found.verdict is Verdict.WRONG
    wrong = {check.fill: check.worst for one in found.comparisons for _, check in one.checks if not check.passed}
    assert wrong["pointer"] == "(b=0, h=3, i=21)"


def test_closed_fills_judge_every_row_and_are_used_only_for_samples(any_supervisor: Supervisor) -> None:
    policy = replace(SAMPLED, all_rows=True)
    found = row(any_supervisor, policy=policy)
    assert found.verdict is Verdict.PASSED, found.notes
    counts = rows_of(found)
    assert list(counts) == ["normal", "coded", "means", "pointer"]
    assert counts["means"] == counts["pointer"] == (240, 240)
    assert 6 <= counts["normal"][0] < 240
    whole = row(any_supervisor, policy=policy, oracle_s=60.0)
    assert rows_of(whole) == {"normal": (240, 240), "coded": (240, 240)}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--dropout 0.1", "dropout keeps other keys"),
        ("--alibi", "means is not used: ALiBi gives keys unequal weights"),
        ("--bias elementwise", "means is not used: the bias"),
        ("--softcap 20", "pointer is not used: the softcap"),
    ],
)
def test_a_fill_that_is_not_used_says_why(any_supervisor: Supervisor, more: str, words: str) -> None:
    found = row(any_supervisor, flags=f"{FLAGS} {more}", policy=replace(SAMPLED, all_rows=True))
    assert found.verdict is Verdict.PASSED, found.notes
    assert any(words in note for note in found.notes)


def test_data_from_files_has_no_closed_answer(any_supervisor: Supervisor) -> None:
    policy = replace(SAMPLED, all_rows=True)
    found = row(any_supervisor, policy=policy, given=("v",))
    assert list(rows_of(found)) == ["normal", "coded"]
    assert "fill means is not used: v comes from a file" in found.notes
    cases = Cases(lambda problem, kind: fill(problem, kind), oracle_s=60.0, given=("v",))
    assert isinstance(cases.case(Problem.from_cli(FLAGS), "means", stream="fmha").reference, Reference)


@pytest.mark.promise("A row says which share of its output was judged; fills with known answers judge all of it.")
def test_every_run_is_judged_on_other_rows(any_supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, set[tuple[int, int]]]] = []

    def watched(plan: Plan, case: Case, outputs: Outputs) -> Comparison:
        assert isinstance(case.reference, Reference)
        rows = case.reference.rows
        seen.append((case.fill, set(zip(rows.h.tolist(), rows.i.tolist(), strict=True))))
        return compared(plan, case, outputs)

    monkeypatch.setattr(judge_module, "compared", watched)
    found = row(any_supervisor, policy=replace(SAMPLED, repeats=3))
    assert found.verdict is Verdict.PASSED
    assert [kind for kind, _ in seen] == ["normal"] * 3 + ["coded"] * 3
    for kind in ("normal", "coded"):
        parts = [rows for name, rows in seen if name == kind]
        assert all(parts)
        assert len(set.union(*parts)) == sum(map(len, parts)) == rows_of(found)[kind][0]
    assert seen[0][1] != seen[3][1], "fills draw other rows"


def test_a_later_run_that_is_wrong_in_its_rows_is_found(
    any_supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison of a later run is not only that of bits."""
    calls: Iterator[int] = iter(range(9))

    def spoilt(plan: Plan, case: Case, outputs: Outputs) -> Comparison:
        if next(calls) == 1:
            outputs = {**outputs, "o": np.full_like(outputs["o"], 3)}
        return compared(plan, case, outputs)

    monkeypatch.setattr(judge_module, "compared", spoilt)
    assert row(any_supervisor, policy=replace(SAMPLED, fills=("normal",))).verdict is Verdict.WRONG
