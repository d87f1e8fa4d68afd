"""Comparisons: exit codes, the second look, means and notes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import SureRule
from fmha_cli.domain.errors import EmptySelection, ExitCode
from fmha_cli.report.record import Record
from fmha_cli.results.comparison import FailOn, compared, confirmed, processes_to_confirm
from fmha_cli.results.conditions import parse_by
from tests.support.generators.runs_to_compare import failed, processes, timed

CALM, NOISY = processes(1_000_000, 1), processes(1_000_000, 2, noise=0.1)
SLOW = processes(1_100_000, 3)
RULE = SureRule(interleaved=True)


def run(**rows: list[list[int]]) -> list[Record]:
    """``s64=CALM``: a row of this length with these processes."""
    return [timed(of, seqlen=int(name[1:])) for name, of in rows.items()]


@pytest.mark.parametrize(
    ("after", "fail_on", "code"),
    [
        (timed(SLOW), (FailOn.SLOWER, FailOn.WRONG), ExitCode.WRONG),
        (timed(SLOW), (FailOn.WRONG,), ExitCode.OK),
        (timed(CALM), (FailOn.SLOWER, FailOn.UNSURE, FailOn.WRONG), ExitCode.OK),
        (timed(NOISY), (FailOn.SLOWER,), ExitCode.OK),
        (timed(NOISY), (FailOn.SLOWER, FailOn.UNSURE), ExitCode.WRONG),
        (failed(), (FailOn.WRONG,), ExitCode.WRONG),
        (failed(), (FailOn.SLOWER, FailOn.UNSURE), ExitCode.OK),
    ],
)
def test_exit_codes(after: Record, fail_on: tuple[FailOn, ...], code: ExitCode) -> None:
    assert compared([timed(CALM)], [after], RULE).exit_code(fail_on) is code


def test_nothing_corresponds() -> None:
    with pytest.raises(EmptySelection, match="nothing corresponds: 1 row before, 2 rows after"):
        compared(run(s64=CALM), run(s128=CALM, s256=CALM), RULE)


def screened() -> tuple[list[Record], list[Record]]:
    """Two runs of 40 rows, of which one is slower; 5 processes are too few to be sure of it."""
    names = [f"s{16 * n}" for n in range(1, 41)]
    before = run(**{name: processes(1_000_000, 10 + n, 5) for n, name in enumerate(names)})
    after = run(**{name: processes(1_000_000, 90 + n, 5) for n, name in enumerate(names)})
    after[3] = replace(after[3], measurement=timed(processes(1_100_000, 7, 5), seqlen=64).measurement)
    return before, after


@pytest.mark.promise("Fresh processes alone decide a suspicious row, and a verdict that became worse ends with 1.")
def test_fresh_processes_decide_what_was_suspicious() -> None:
    before, after = screened()
    first = compared(before, after, RULE)
    (place,) = [i for i, row in enumerate(first.rows) if row in first.suspicious]
    assert place == 3
    assert first.rows[3].difference.speed is Speed.UNSURE
    again = confirmed(first, run(s64=processes(1_000_000, 5, 12)), run(s64=processes(1_100_000, 6, 12)))
    assert again.rows[3].difference.speed is Speed.SLOWER
    assert again.rows[3].difference.processes_after == 12
    assert again.rows[3].screened == first.rows[3].difference
    assert again.rows[:3] == first.rows[:3]
    assert not again.suspicious
    calm = confirmed(first, run(s64=processes(1_000_000, 5, 12)), run(s64=processes(1_000_000, 6, 12)))
    assert calm.rows[3].difference.speed is Speed.SAME, "the first look does not count any more"


def test_fresh_processes_are_corrected_over_their_rows_alone() -> None:
    before, after = screened()
    again = confirmed(
        compared(before, after, RULE), run(s64=processes(1_000_000, 5, 12)), run(s64=processes(1_100_000, 6, 12))
    )
    assert again.rows[3].difference.p_adjusted == again.rows[3].difference.p


@pytest.mark.promise("The chance that any row is wrongly called slower or faster is at most `--alpha`.")
def test_a_slow_row_lends_no_certainty_to_another_that_is_run_again() -> None:
    """Rows next to others that are surely slower. Their p values are enough for a share of 5 %, and not for a chance of
    5 %.
    """
    names = [f"s{64 * n}" for n in range(1, 6)]
    first = compared(run(**dict.fromkeys(names, CALM)), run(**dict.fromkeys(names, SLOW)), RULE)
    assert len(first.suspicious) == 5
    calm, slow = processes(1_000_000, 5, 12), processes(1_100_000, 6, 12)
    doubtful = [*processes(1_100_000, 7, 9), *processes(940_000, 8, 3)]
    again = confirmed(
        first, run(**dict.fromkeys(names, calm)), run(**{**dict.fromkeys(names, slow), names[4]: doubtful})
    )
    *sure, last = (row.difference for row in again.rows)
    assert {one.speed for one in sure} == {Speed.SLOWER}
    assert last.p is not None
    assert 0.025 < last.p <= 0.05
    assert last.speed is Speed.SLOWER, "it is the last one, and Holm tests the last one at alpha itself"
    two = {**dict.fromkeys(names, slow), names[3]: doubtful, names[4]: doubtful}
    again = confirmed(first, run(**dict.fromkeys(names, calm)), run(**two))
    assert [row.difference.speed for row in again.rows] == [Speed.SLOWER] * 3 + [Speed.UNSURE] * 2


def test_a_suspicious_row_that_did_not_run_again_is_unsure() -> None:
    first = compared(run(s64=CALM, s128=CALM), run(s64=SLOW, s128=SLOW), RULE)
    again = confirmed(first, run(s64=CALM), run(s64=SLOW))
    assert [row.difference.speed for row in again.rows] == [Speed.SLOWER, Speed.UNSURE]
    assert again.rows[1].difference.why == "it was not run again"


def test_fresh_processes_take_turns_although_the_first_look_did_not() -> None:
    first = compared(run(s64=CALM), run(s64=SLOW), SureRule(interleaved=False))
    again = confirmed(first, run(s64=CALM), run(s64=SLOW))
    assert first.rows[0].difference.drift is not None
    assert again.rows[0].difference.drift is None


def test_how_many_processes_confirm() -> None:
    assert [processes_to_confirm(rows, 0.05) for rows in (1, 300, 100_000)] == [12, 15, 20]


def test_means_are_of_each_backend() -> None:
    both = [timed(CALM, seqlen=n) for n in (64, 128)] + [timed(CALM, seqlen=64, backend="b")]
    slower = [timed(SLOW, seqlen=n) for n in (64, 128)] + [timed(CALM, seqlen=64, backend="b")]
    means = compared(both, slower, RULE).means
    assert {name: (mean.rows, round(mean.ratio, 2)) for name, mean in means.items()} == {"cpu": (2, 1.1), "b": (1, 1.0)}


def test_notes_name_what_differs_and_what_the_rows_need() -> None:
    other = [replace(record, host="f" * 64) for record in run(s64=CALM)]
    here = [replace(record, host="0" * 64) for record in run(s64=CALM)]
    assert compared(here, other, RULE).notes == ("host differs: 000000000000 before, ffffffffffff after",)
    assert compared(here, here, RULE).notes == ()
    rows = {f"s{16 * n}": processes(1_000_000, n, 5) for n in range(1, 9)}
    (note,) = compared(run(**rows), run(**rows), RULE).notes
    assert note == "8 rows: a lone difference needs at least 6 processes a side to be sure; here are 5"


def test_where_nothing_corresponds_the_first_condition_and_the_way_out_are_named() -> None:
    def refused(after: list[Record]) -> tuple[str, str]:
        with pytest.raises(EmptySelection) as caught:
            compared([timed(CALM)], after, RULE)
        return str(caught.value.why), str(caught.value.help)

    assert refused([]) == ("the run after has no rows", "`fmha results show RUN` shows its rows")
    why, help = refused([timed(CALM, seqlen=128)])
    assert why.startswith("the runs have no problem in common: ")
    assert help == "run both with the same problem flags"
    other = replace(timed(CALM, backend="torch"), device="cuda:0")
    why, help = refused([other])
    assert why == "backend is cpu before and torch after"
    assert help == "--by problem,arch,cache,threads compares them all the same"
    by = parse_by(help.removeprefix("--by ").partition(" ")[0])
    assert len(compared([timed(CALM)], [other], RULE, by).rows) == 1
