"""Which rows of two runs correspond, and which processes a row has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.bench.conditions import Ceiling
from fmha_cli.bench.roofline import Bound, CacheState
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.verdict import Verdict
from fmha_cli.results.conditions import USUAL, By, parse_by
from fmha_cli.results.matching import matching
from tests.support.generators.runs_to_compare import failed, processes, timed

EIGHT = processes(1_000_000, 1)


def test_rows_correspond_where_their_conditions_do() -> None:
    before = [timed(EIGHT), timed(EIGHT, seqlen=128), timed(EIGHT, cache=CacheState.COLD)]
    after = [timed(EIGHT, seqlen=128), timed(EIGHT), timed(EIGHT, threads=2)]
    found = matching(before, after)
    assert [row.before.one.problem["seqlen_q"] for row in found.rows] == [64, 128]
    assert [entry.one for entry in found.only_before] == [before[2]]
    assert [entry.one for entry in found.only_after] == [after[2]]


@pytest.mark.parametrize(("by", "rows"), [("problem", 1), ("problem,backend", 0), ("problem,device,cache", 1)])
def test_by_says_what_must_be_equal(by: str, rows: int) -> None:
    """Two libraries on one problem correspond by the problem."""
    other = timed(EIGHT, backend="torch", kernel="b")
    assert len(matching([timed(EIGHT)], [other], parse_by(by)).rows) == rows


def test_several_kernels_correspond_by_name_and_a_renamed_one_alone() -> None:
    both = [timed(EIGHT, kernel=name) for name in ("a", "b")]
    found = matching(both, list(reversed(both)))
    assert [(row.before.one.kernel, row.after.one.kernel) for row in found.rows] == [(r.kernel, r.kernel) for r in both]
    assert len(matching(both[:1], both[1:]).rows) == 1, "renamed"
    lone = matching(both, [timed(EIGHT, kernel="c")])
    assert (len(lone.rows), len(lone.only_before), len(lone.only_after)) == (0, 2, 1)


def test_records_of_one_row_are_its_processes() -> None:
    """Eight runs in one file: each record is a process, and so is each process of a record."""
    runs = [timed([process]) for process in EIGHT[:5]] + [timed(EIGHT[5:])]
    (row,) = matching(runs, [timed(EIGHT)]).rows
    assert row.pair.before.levels == row.pair.after.levels


def test_rows_that_differ_otherwise_are_not_taken_for_processes() -> None:
    two = [timed(EIGHT), timed(EIGHT, cache=CacheState.COLD)]
    with pytest.raises(UsageError, match="with cache hot, cold") as caught:
        matching(two, two, (By.PROBLEM, By.BACKEND))
    assert caught.value.help == "--by problem,backend,cache"


def test_a_row_that_failed_belongs_where_it_contradicts_nothing() -> None:
    (row,) = matching([timed(EIGHT)], [failed()]).rows
    assert row.worse
    assert row.pair.after.processes == ()
    (row,) = matching([failed()], [timed(EIGHT)]).rows
    assert not row.worse


@pytest.mark.parametrize(
    ("verdict", "worse"),
    [(Verdict.WRONG, True), (Verdict.UNSUPPORTED, True), (Verdict.CRASHED, True), (Verdict.NOT_RUN, False)],
)
def test_which_verdicts_are_worse(verdict: Verdict, worse: bool) -> None:
    (row,) = matching([timed(EIGHT)], [failed(verdict)]).rows
    assert row.worse is worse


def test_one_process_that_failed_spoils_its_row() -> None:
    (row,) = matching([timed(EIGHT)], [timed(EIGHT), failed()]).rows
    assert row.worse
    assert row.after.verdict is Verdict.WRONG
    assert row.pair.after.processes == ()


def test_emulated_times_are_none() -> None:
    emulated = timed(EIGHT, device="emu:gfx942")
    (row,) = matching([emulated], [emulated]).rows
    assert row.pair.before.processes == ()


def test_the_ceilings_of_a_row_are_kept() -> None:
    row = timed(EIGHT)
    assert row.measurement is not None
    lit = replace(
        row, measurement=replace(row.measurement, ceiling=Ceiling(bound=Bound.COMPUTE, before=2.0, after=3.0))
    )
    (found,) = matching([lit], [row]).rows
    assert (found.pair.before.ceiling, found.pair.after.ceiling) == (3.0, None)


@pytest.mark.parametrize("text", ["problm", "problem,,", "backend"])
def test_conditions_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_by(text)
    assert caught.value.code == "E055"


def test_the_usual_conditions() -> None:
    assert parse_by(None) == USUAL
    assert parse_by("problem, kernel,problem") == (By.PROBLEM, By.KERNEL)
