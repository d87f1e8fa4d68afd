"""The page in a real headless Chromium: every plot drawn, no word on the console, no request, light, dark and on a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.packing import script_text
from fmha_cli.pages.page import POLICY, page, plots
from fmha_cli.report.escaping import escaped
from tests.support.fixtures.browser import Browser, browser
from tests.support.generators.page_contents import HOSTILE, everything, odd, run, timed

pytestmark = [pytest.mark.slow, pytest.mark.ci]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> PageContent:
    return everything(tmp_path_factory.mktemp("content"))


@pytest.fixture(scope="module")
def text(content: PageContent) -> str:
    return page(content)


LEAST = {"throughput": 85, "roofline": 80, "regret": 65, "history": 14, "compare": 12, "samples": 33, "verdicts": 4}
"""Marks of data that each plot has at least; points, bars and cells."""


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 1280), (False, 390)], ids=["light", "dark", "phone"])
def test_every_plot_is_drawn_and_nothing_is_asked_for(opened: Browser, text: str, dark: bool, width: int) -> None:
    shown = opened.open(text, dark=dark, width=width)
    assert shown.drawn
    assert {plot: shown.marks(plot) for plot in LEAST if shown.marks(plot) < LEAST[plot]} == {}
    assert shown.errors() == []
    assert shown.requests() == []
    assert shown.overflow() <= 0
    color = shown.run("return getComputedStyle(document.body).backgroundColor")
    assert color == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    words = shown.run("return document.querySelector('#roofline svg text').getAttribute('fill')")
    assert words == ("#e3e7eb" if dark else "#1d2329")


def test_tables_sort_and_filter(opened: Browser, text: str, content: PageContent) -> None:
    shown = opened.open(text)
    lines = "[...document.querySelectorAll('#rows tbody tr')]"
    assert shown.run(f"return {lines}.length") == len(content.records)
    head = "[...document.querySelectorAll('#rows th button')].find(b => b.textContent.startsWith('time'))"
    place = shown.run(f"return [...document.querySelectorAll('#rows th')].indexOf({head}.parentElement)")
    times = {
        number: None if r.measurement is None else r.measurement.median_ns
        for number, r in enumerate(content.records, 1)
    }
    for falling in (False, True):
        shown.run(f"{head}.click()")
        order = [int(row) for row in shown.run(f"return {lines}.map(line => line.dataset.row)")]
        known = [times[row] for row in order if times[row] is not None]
        assert known == sorted(known, reverse=falling)  # type: ignore[type-var]
        assert all(times[row] is None for row in order[len(known) :])
    assert place > 0
    script = (
        "const i = document.querySelector('#rows input'); i.value = arguments[0]; i.dispatchEvent(new Event('input'));"
    )
    shown.run(script, "torch d128 bf16")
    found = shown.run(f"return {lines}.filter(line => !line.hidden).map(line => line.textContent)")
    assert len(found) == 5
    assert all("torch" in line and "d128" in line for line in found)
    assert shown.run("return document.querySelector('#rows output').textContent") == f"5 of {len(content.records)} rows"
    again = shown.run(f"return {lines}.map(line => line.lastElementChild.textContent)")
    assert sorted(again) == sorted(record.repro for record in content.records)


def test_a_click_on_a_point_shows_its_line_and_its_samples(opened: Browser, text: str, content: PageContent) -> None:
    shown = opened.open(text)
    shown.run(
        "const mark = document.querySelector('#throughput .mark-symbol path[aria-roledescription=point]');"
        "const box = mark.getBoundingClientRect(); const at = {clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true};"
        "mark.dispatchEvent(new MouseEvent('click', at));"
    )
    line = shown.run("return document.querySelector('#picked code').textContent")
    row = int(shown.run("return document.querySelector('#picked span').textContent").removeprefix("row "))
    assert line == content.records[row - 1].repro
    assert shown.run("return document.querySelector('select[data-signal=chosen]').value") == str(row)
    assert shown.run("return document.querySelector('tr.picked').dataset.row") == str(row)
    assert shown.errors() == []


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
def test_hostile_texts_are_shown_and_never_obeyed(opened: Browser) -> None:
    rows = [timed(Problem.of(dtype="fp32"), HOSTILE, repro=HOSTILE), *odd()]
    shown = opened.open(page(PageContent(title=HOSTILE, runs=[run(*rows, name=HOSTILE)], untracked=HOSTILE)))
    assert shown.drawn
    assert shown.errors() == []
    assert shown.requests() == []
    assert shown.run("return document.querySelector('tr[data-row=\"1\"] code').textContent") == escaped(HOSTILE)
    assert shown.run("return document.images.length") == 0


def test_a_page_without_rows_has_words_in_place_of_plots(opened: Browser) -> None:
    empty = PageContent(title="t", runs=[])
    shown = opened.open(page(empty))
    assert shown.drawn
    assert shown.errors() == []
    assert shown.run("return document.querySelectorAll('.missing').length") >= len(plots(empty))


def planted(text: str, spec: dict[str, object]) -> str:
    """The page with a chart of its data replaced."""
    before, start, rest = text.partition('<script id="fmha-data" type="application/json">')
    data, end, after = rest.partition("</script>")
    held = json.loads(data)
    held["plots"][0]["panels"][0] = spec
    return f"{before}{start}{script_text(held)}{end}{after}"


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
def test_a_chart_that_asks_the_network_is_noticed(opened: Browser, text: str) -> None:
    spec = {"data": {"url": "https://example.org/data.json"}, "mark": "point", "encoding": {}}
    with_policy = opened.open(planted(text, spec))
    assert any("example.org" in line for line in with_policy.errors())
    without = opened.open(planted(text, spec).replace(POLICY, ""))
    assert "https://example.org/data.json" in without.requests()


def test_an_error_of_the_page_is_noticed(opened: Browser, text: str) -> None:
    shown = opened.open(text.replace("await draw();", "await draw();\nthrow Error('planted');"))
    assert any("planted" in line for line in shown.errors())


def test_a_chart_that_is_empty_is_noticed(opened: Browser, text: str) -> None:
    shown = opened.open(planted(text, {"data": {"values": []}, "mark": "point", "encoding": {}}))
    first = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])["plots"][0]["id"]
    assert shown.marks(first) < LEAST[first]


def test_the_folder_is_left_as_it_was(opened: Browser) -> None:
    assert {path.name for path in Path(opened.folder).iterdir()} <= {"page.html", "profile"}
