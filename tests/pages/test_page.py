"""The page: complete in itself, small, and safe whatever its data hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.pages import page as pages
from fmha_cli.pages.content import PageContent, gathered
from fmha_cli.pages.drawing import check_libraries
from fmha_cli.pages.page import page, plots
from fmha_cli.pages.plot import Plot
from fmha_cli.pages.plots.samples import MOST
from tests.support.generators.page_contents import HOSTILE, bare_content, failed, kernels, odd, run, timed

check_libraries("tests")

SEVEN = ["throughput", "roofline", "regret", "history", "compare", "samples", "verdicts"]
LARGEST = 2_000_000
"""Bytes of a page of 1,000 rows of 8 processes."""
VEGA = 950_000
"""Of these, what a page has without rows."""

CI = (pytest.mark.slow, pytest.mark.ci)


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts.append(data)

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


@pytest.fixture
def bare_bundle(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pages without Vega, which takes seconds to pack and is the same in all."""
    monkeypatch.setattr(pages, "vega_bundle", lambda: "/* vega */")
    return


@pytest.fixture(scope="module")
def whole_page(whole: PageContent) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "vega_bundle", lambda: "/* vega */")
        return page(whole)


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
@pytest.mark.parametrize("count", [pytest.param(count, marks=CI) for count in (100, 1000)])
def test_a_page_of_1000_rows_is_small_and_names_no_address(count: int) -> None:
    lengths = [64 * n for n in range(1, count // 8 + 1)]
    problems = [Problem.of(heads=8, seqlen=n, hdim=64, dtype=dtype) for n in lengths for dtype in ("fp32", "bf16")]
    backends = ("cpu", "torch", "openvino", "x")
    rows = [timed(problem, name, processes=8, samples=11) for problem in problems for name in backends]
    text = page(bare_content(*rows))
    assert len(text.encode()) <= VEGA + (LARGEST - VEGA) * len(rows) // 1000
    found = Elements(text)
    assert [
        a for _, a in found.found for name in ("src", "href") if not (a.get(name) or "#").startswith(("#", "data:"))
    ] == []
    assert "@import" not in text.partition("</style>")[0]
    assert found.data["rows"]["n"] == len(rows) > count - 8


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
@pytest.mark.slow
@pytest.mark.ci
def test_seven_plots_have_data_or_say_in_words_why_not(whole_plots: list[Plot]) -> None:
    assert sorted(plot.id for plot in whole_plots) == sorted(SEVEN)
    assert [plot.id for plot in whole_plots if plot.missing] == []
    assert all(plot.panels and plot.data for plot in whole_plots)
    for content in (bare_content(), bare_content(failed(Problem.of()))):
        lacking = [plot for plot in plots(content) if not plot.panels]
        assert {plot.id for plot in lacking} >= set(SEVEN) - {"verdicts"}
        assert all(plot.missing and plot.missing.endswith(".") for plot in lacking)


@pytest.mark.usefixtures("bare_bundle")
def test_what_is_missing_stands_in_the_page() -> None:
    text = page(bare_content())
    for plot in plots(bare_content()):
        assert plot.missing is not None
        assert plot.missing in text


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
@pytest.mark.usefixtures("bare_bundle")
def test_hostile_texts_stay_texts() -> None:
    plain = page(bare_content(timed(Problem.of(), "cpu")))
    hostile = bare_content(timed(Problem.of(), HOSTILE, repro=HOSTILE), *odd())
    text = page(PageContent(title=HOSTILE, runs=[run(*hostile.records, name=HOSTILE)], untracked=HOSTILE))
    elements = [[tag for tag, _ in Elements(one).found if tag in ("script", "img", "b")] for one in (plain, text)]
    assert elements == [["script"] * 3] * 2
    assert "\x1b" not in text.partition('<script id="fmha-data"')[0]
    assert Elements(text).data["rows"]["n"] == len(hostile.records)


@pytest.mark.usefixtures("bare_bundle")
def test_numbers_that_are_not_finite_are_null() -> None:
    text = Elements(page(bare_content(*odd()))).scripts[0]
    json.loads(text, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.slow
@pytest.mark.ci
def test_every_row_has_the_line_that_gives_it_again(whole: PageContent, whole_page: str) -> None:
    again = Elements(whole_page).data["rows"]["columns"]["again"]
    assert unpacked(again) == [record.repro for record in whole.records]


@pytest.mark.usefixtures("bare_bundle")
def test_rows_without_a_time_are_listed_with_their_reasons() -> None:
    text = page(bare_content(*kernels(count=1), *odd()))
    assert "rows 4-5: UNSUPPORTED: K012 hdim 72 is not supported (help: --hdim 80)" in text
    assert "row 7: WRONG: R001 the result is NaN" in text


def test_the_environment_and_the_run_are_told(whole_page: str) -> None:
    for words in ("A CPU", "no ROCm", "AMD EPYC", "2026-11-25T10:00:00Z"):
        assert words in whole_page


def test_a_process_has_at_most_11_quantiles() -> None:
    content = bare_content(timed(Problem.of(dtype="fp32"), processes=3, samples=500))
    (plot,) = (plot for plot in plots(content) if plot.id == "samples")
    (rows,) = plot.data.values()
    assert MOST == 11
    assert [sum(row["process"] == n for row in rows) for n in range(3)] == [11] * 3
    measured = content.records[0].measurement
    assert measured is not None
    ends = [row["level"] * row["unit"] for row in rows if row["process"] == 0]
    assert ends[0] == pytest.approx(min(measured.samples_ns[:500]), rel=1e-4)
    assert ends[-1] == pytest.approx(max(measured.samples_ns[:500]), rel=1e-4)


@pytest.mark.parametrize("most", [pytest.param(1, marks=CI), pytest.param(None, marks=pytest.mark.slow)])
def test_charts_are_valid(whole_plots: list[Plot], most: int | None) -> None:
    """The first panel of each plot by default: the others differ in their rows."""
    import altair as alt

    for plot in whole_plots:
        for panel in plot.panels[:most]:
            alt.LayerChart.from_dict(panel.spec, validate=True)


def test_a_store_that_is_missing_or_broken_costs_the_history_alone(tmp_path: Path) -> None:
    row = timed(Problem.of(dtype="fp32"))
    missing = gathered("t", [run(row)], tmp_path / "none.sqlite")
    assert "no store" in missing.untracked
    (tmp_path / "bad.sqlite").write_bytes(b"no database" * 999)
    broken = gathered("t", [run(row)], tmp_path / "bad.sqlite")
    assert broken.untracked.startswith("No history: the store of results cannot be used")
    assert len(plots(broken)) == 7


def unpacked(column: Any) -> list[Any]:
    """The values of a packed column, as ``page.js`` unpacks them."""
    if isinstance(column, list):
        return column
    if "steps" in column:
        return [sum(column["steps"][: n + 1]) for n in range(len(column["steps"]))]
    if "at" in column:
        return [column["of"][place] for place in column["at"]]
    return [value for value, count in zip(column["of"], column["runs"], strict=True) for _ in range(count)]
