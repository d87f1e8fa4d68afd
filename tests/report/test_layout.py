"""Tables fit any terminal: no line is too long, no number is cut, and no column is lost without a word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.report.column import Column, Fit
from fmha_cli.report.drawing import plain
from fmha_cli.report.fitting import broken, columns, cut, folded, shortened
from fmha_cli.report.layout import factored, lay_out
from fmha_cli.report.table import Table

texts = st.text("ab1 -/:,=_éあ字\n\t…", max_size=60)
labels = st.text("abc /[]é", min_size=1, max_size=20).filter(str.strip)
widths = st.integers(40, 160)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    count = draw(st.integers(1, 12))
    kinds = [
        Column(
            draw(labels),
            number=draw(st.booleans()),
            fit=draw(st.sampled_from(Fit)),
            least=draw(st.integers(1, 30)),
            rank=draw(st.integers(0, 3)),
            common=draw(st.none() | st.just("shared {}".format)),
            words=draw(st.booleans()),
            called=f"c{i}",
        )
        for i in range(count)
    ]
    long = st.text("ab1 -/:", min_size=8, max_size=40)
    cells = [draw(st.lists(texts | long, min_size=1, max_size=3)) for _ in kinds]
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, cells)), min_size=draw(st.integers(0, 2)), max_size=6))
    return Table(kinds, rows, draw(texts), draw(st.lists(texts, max_size=3)))


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
@settings(max_examples=40)
@given(tables(), widths)
def test_no_line_is_longer_than_the_terminal(table: Table, width: int) -> None:
    assert max(map(columns, plain(table, width).split("\n"))) <= width


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
@settings(max_examples=40)
@given(tables(), widths)
@pytest.mark.slow
@pytest.mark.ci
def test_no_column_is_lost_without_a_word(table: Table, width: int) -> None:
    laid = lay_out(table, width)
    shown = {column.name for column in laid.columns}
    for i, column in enumerate(table.columns):
        cells = [row[i] for row in table.rows]
        whole = not any(cell.strip() for cell in cells)
        told = column.common is not None and len(laid.common) > 0 and len({" ".join(c.split()) for c in cells}) == 1
        assert column.name in shown or column.name in laid.left_out or whole or told
    if laid.left_out:
        line = " ".join(plain(table, width).split())
        assert "left out" in line
        assert "--wide shows all" in line


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
@settings(max_examples=40)
@given(tables(), widths)
@pytest.mark.slow
@pytest.mark.ci
def test_what_must_stay_whole_does(table: Table, width: int) -> None:
    """Only a table of one column that is wider than the terminal breaks it, because nothing else can be left out."""
    laid = lay_out(table, width)
    if len(laid.columns) == 1:
        return
    originals = {
        column.name: {" ".join(row[i].split()) for row in table.rows} for i, column in enumerate(table.columns)
    }
    for i, column in enumerate(laid.columns):
        if column.fit is Fit.WHOLE and not column.words:
            assert {" ".join(row[i].split()) for row in laid.rows} <= originals[column.name]
            assert not any("\n" in row[i] for row in laid.rows)
        if column.fit is Fit.FOLD and not column.words:
            assert {"".join(row[i].split()) for row in laid.rows} == {
                "".join(text.split()) for text in originals[column.name]
            }


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
def test_a_number_is_neither_cut_nor_folded() -> None:
    kinds = [Column("time", number=True, least=1), Column("digest", rank=1)]
    laid = lay_out(Table(kinds, [["123,456.78 ms", "d" * 30]], ""), 40)
    assert [list(row) for row in laid.rows] == [["123,456.78 ms"]]
    assert laid.left_out == ("digest",)


@settings(max_examples=40)
@given(tables())
@pytest.mark.slow
@pytest.mark.ci
def test_without_a_terminal_nothing_changes(table: Table) -> None:
    laid = lay_out(table, None)
    assert not laid.common
    assert not laid.left_out
    assert len(laid.rows) == len(table.rows)


def test_columns_of_the_highest_rank_go_first() -> None:
    kinds = [Column("digest"), Column("time", rank=2), Column("peak", rank=3), Column("error", rank=3)]
    laid = lay_out(Table(kinds, [["a" * 14, "b" * 14, "c" * 14, "d" * 14]], ""), 47)
    assert [column.name for column in laid.columns] == ["digest", "time", "peak"]
    assert laid.missing == "1 column left out: error; --wide shows all"
    assert lay_out(Table(kinds, [["a" * 14, "b" * 14, "c" * 14, "d" * 14]], ""), 40).left_out == ("peak", "error")


@pytest.mark.parametrize("width", range(40, 120, 7))
def test_what_alone_tells_two_rows_apart_stays_longest(width: int) -> None:
    """Rows of several backends are told apart by the backend, those of one by the state of the caches, whatever the ranks say."""
    table = report_rows(("cpu", "hot"), ("torch", "hot"))
    assert "backend" in [column.name for column in lay_out(table, width).columns]
    table = report_rows(("cpu", "hot"), ("cpu", "cold"))
    assert "cache" in [column.name for column in lay_out(table, width).columns]


def report_rows(*rows: tuple[str, str]) -> Table:
    columns = (
        Column("problem", common=str, words=True, fit=Fit.FOLD, least=20),
        Column("backend", common=str, rank=9),
        Column("cache", common=str, rank=9),
        Column("verdict"),
        Column("time", number=True),
        Column("peak", number=True, rank=1),
        Column("error", rank=2),
    )
    cells = [("b1 s128 fp32 causal", *row, "PASSED", "1.25 ms", "12.5", "o 2.7e-04 (51%)") for row in rows]
    return Table(columns, cells, "2 rows")


def test_names_that_would_look_alike_are_left_out() -> None:
    names = [f"{'x' * 40}{i}{'y' * 40}" for i in range(2)]
    kinds = [Column("digest"), Column("name", fit=Fit.MIDDLE, rank=1)]
    assert lay_out(Table(kinds, [["1", names[0]], ["2", names[1]]], ""), 60).left_out == ("name",)
    apart = [f"{i}{'x' * 80}" for i in range(2)]
    laid = lay_out(Table(kinds, [["1", apart[0]], ["2", apart[1]]], ""), 60)
    assert laid.rows[1][1] == "1" + "x" * 28 + "…" + "x" * 28 or laid.rows[1][1].startswith("1x")


@pytest.mark.promise("What all rows share is said once.")
def test_what_all_rows_share_is_said_once() -> None:
    kinds = [Column("problem", common="{}".format, words=True), Column("arch", common="{}".format), Column("verdict")]
    table = Table(kinds, [["b1 s64 causal", "gfx942", "PASSED"], ["b1 s128", "gfx942", "PASSED"]], "2 rows")
    part, said = factored(table)
    assert said == ("b1", "gfx942")
    assert part.rows == [["s64 causal", "PASSED"], ["s128", "PASSED"]]
    lines = plain(table, 60).split("\n")
    assert lines[0] == "all rows: b1, gfx942"
    one = Table(kinds, [["b1 s64", "gfx942", "PASSED"]], "1 row")
    assert "all rows" not in plain(one, 60)


def test_a_row_without_the_words_in_which_rows_differ_has_a_dash() -> None:
    kinds = [Column("problem", common="{}".format, words=True), Column("verdict")]
    part, _ = factored(Table(kinds, [["b1 causal", "PASSED"], ["b1", "PASSED"]], ""))
    assert [row[0] for row in part.rows] == ["causal", "-"]


@given(texts, widths)
def test_folded_text_fits_and_keeps_every_word(text: str, width: int) -> None:
    lines = folded(text, width)
    assert all(columns(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(texts, st.integers(3, 30))
def test_words_are_broken_only_where_they_must(text: str, width: int) -> None:
    lines = broken(text, width)
    assert all(columns(line) <= width for line in lines)
    fits = [word for word in text.split() if columns(word) <= width]
    assert all(any(word in line.split() for line in lines) for word in fits)


@given(texts.map(lambda text: " ".join(text.split())), st.integers(2, 40))
def test_an_ellipsis_keeps_the_ends(text: str, width: int) -> None:
    for short in (cut(text, width), shortened(text, width)):
        assert columns(short) <= width
        assert short == text or "…" in short


def test_no_part_of_a_number_stands_for_it() -> None:
    assert cut("rows_o=12 block_k=384", 20) == "rows_o=12…"


def test_a_command_can_be_pasted_from_the_lines_it_takes() -> None:
    text = "  1: again: fmha run --seqlen 100 --hdim 64 --backend cpu --dtype bf16 --causal"
    lines = folded(text, 40)
    assert max(map(columns, lines)) <= 40
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert " ".join("".join(lines).replace("\\", "").split()) == " ".join(text.split())
    assert not any(line.endswith("\\") for line in folded("  1: again: fmha run --out 'a  b' " + "-s 1 " * 20, 40))


def test_long_words_break_behind_a_separator() -> None:
    assert broken("/usr/lib/python/site-packages", 20) == ["/usr/lib/python/", "site-packages"]
