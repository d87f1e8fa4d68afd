"""The table says which share of the rows was compared, and is silent when it was every row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.domain.verdict import Comparison
from fmha_cli.report.documents.report import records_view, report_document
from fmha_cli.report.table import plain
from report.samples import ENVIRONMENT, check, record


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
