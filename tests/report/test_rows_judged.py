"""What the table says about judging: the share of the rows that was compared, what ``validate`` did, and where it found
the worst error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.bench.sampling import StopReason
from fmha_cli.domain.verdict import Comparison
from fmha_cli.report.documents.report import records_view, report_document
from fmha_cli.report.drawing import plain
from fmha_cli.report.parts import RunRow
from tests.support.generators.report.samples import ENVIRONMENT, check, measurement, record


def table(*counts: tuple[str, int, int | None]) -> str:
    comparisons = tuple(
        Comparison(checks=(("o", replace(check(5e-4, fill), rows=rows, rows_total=total)),))
        for fill, rows, total in counts
    )
    one = replace(record(), comparisons=comparisons)
    return plain(records_view(report_document([one], ENVIRONMENT)))


@pytest.mark.parametrize(
    ("rows", "total", "words"),
    [
        (16, 100, "(50%), 16 % of rows"),
        (1, 1000, "<1 % of rows"),
        (9999, 10000, "99.9 % of rows"),
        (995, 1000, "99.5 %"),
    ],
)
def test_a_sample_is_told(rows: int, total: int, words: str) -> None:
    assert words in table(("normal", rows, total))


@pytest.mark.parametrize("total", [64, None])
def test_every_row_needs_no_word(total: int | None) -> None:
    """Rows of ``fmha.record/1`` do not say how many rows there were."""
    assert "of rows" not in table(("normal", 64, total))


def test_the_least_share_counts_and_full_fills_are_named() -> None:
    text = table(("normal", 30, 100), ("ties", 20, 100), ("means", 100, 100))
    assert "20 % of rows" in text
    assert "compared: normal, ties: 20 % of rows; means: all rows" in text


def test_no_row_at_all_is_every_row() -> None:
    assert "of rows" not in table(("normal", 0, 0))


RUN = RunRow(id="f" * 32, command="validate", started="2026-11-22T19:40:00Z")


@pytest.mark.promise("`validate` says what it did and where the worst error is.")
def test_validate_says_what_it_did_and_where_the_worst_error_is() -> None:
    checked = replace(check(2e-4), worst="(b=0, h=3, i=17)", column=5)
    fills = tuple(Comparison(checks=(("o", replace(checked, fill=fill)),)) for fill in ("normal", "ties"))
    once = replace(measurement(), launches=((100,),), stop=StopReason.SINGLE)
    rows = [replace(record(), comparisons=fills, run=RUN, measurement=once)] * 2
    found = records_view(report_document(rows, ENVIRONMENT)).narrowed()
    cells = dict(zip(found.headers, found.rows[0], strict=True))
    assert cells["worst"] == "normal (b=0, h=3, i=17) d=5, row limit"
    assert not [header for header in found.headers if "time" in header or "/s" in header]
    assert (
        "  judged: 2 fills (normal, ties) x 2 launches; 256 rows of o compared; inputs and 8.00 KiB of guard zones watched"
        in found.details
    )


def test_rows_that_were_judged_differently_have_their_own_line() -> None:
    other = replace(record(), comparisons=record().comparisons[:1], run=RUN)
    found = records_view(report_document([replace(record(), run=RUN), other], ENVIRONMENT))
    assert [line[:22] for line in found.details if "judged" in line] == [
        "  judged 1: 2 fills (n",
        "  judged 2: 1 fill (no",
    ]


@pytest.mark.promise("The time of a single launch is not shown.")
@pytest.mark.parametrize(("stop", "shown"), [(StopReason.SINGLE, False), (StopReason.MAX_TIME, True)])
def test_the_time_of_one_launch_is_not_shown(stop: StopReason, shown: bool) -> None:
    """A bench that got one sample only shows it, with its mark; the one sample of run and validate is in JSON alone."""
    once = replace(measurement(), launches=((22_541_000,),), stop=stop)
    found = records_view(report_document([replace(record(), measurement=once)], ENVIRONMENT))
    assert any(header.startswith("time") for header in found.narrowed().headers) is shown
    assert any("/s" in header for header in found.narrowed().headers) is shown


@pytest.mark.parametrize("command", ["run", "bench"])
def test_only_validate_tells_how_it_judged(command: str) -> None:
    found = records_view(
        report_document([replace(record(), run=replace(RUN, command=command))], ENVIRONMENT)
    ).narrowed()
    assert "worst" not in found.headers
    assert not [line for line in found.details if "judged" in line]


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"row_l2": 9e-4}, "row"),
        ({"row_l2": 1e-5, "max_abs": 9e-3}, "element"),
        ({"rms": 1e-3, "rms_budget": 1e-4}, "rms"),
        ({"nonfinite": 1}, "finite"),
        ({"row_l2": 1e-5, "row_l2_budget": 0.0}, "row"),
    ],
)
def test_the_limit_that_is_nearest_is_named(changes: dict[str, float], limit: str) -> None:
    assert replace(check(1e-4), **{"max_abs": 1e-5, **changes}).limit == limit  # type: ignore[arg-type]
