"""``fmha report``, ``fmha compare --html`` and ``fmha bench --plot``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.pages import page as pages
from fmha_cli.report.documents.report import report_document
from tests.cli.conftest import Fmha
from tests.cli.test_compare import saved
from tests.support.generators import runs_to_compare
from tests.support.generators.kept_runs import filled, run_row
from tests.support.generators.page_contents import history_store, kernels, odd, sweep
from tests.support.generators.report.samples import ENVIRONMENT
from tests.support.generators.runs_to_compare import processes

SWEPT = ("bench", "--backend", "null", "--heads", "1", "--hdim", "32", "--budget", "0.01", "--no-check")


@pytest.fixture(autouse=True)
def _bare_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing Vega takes seconds; ``pages/test_page.py`` and the browser have it."""
    monkeypatch.setattr(pages, "vega_bundle", lambda: "/* vega */")


@pytest.fixture
def rows(home: Path) -> str:
    Path("a.json").write_text(json.dumps(to_json(report_document([*kernels(count=2), *odd()], ENVIRONMENT))), "utf-8")
    return "a.json"


def test_runs_become_one_page(fmha: Fmha, rows: str) -> None:
    done = fmha("report", rows, "-o", "r.html", "--title", "My <title>")
    assert done.code == 0, done.err
    assert done.out == ""
    assert "r.html: 8 rows" in done.err
    text = Path("r.html").read_text("utf-8")
    assert "<title>My &lt;title&gt;</title>" in text
    assert text.count("<section id=") == 10


def test_a_run_of_the_store_brings_its_history(fmha: Fmha, home: Path) -> None:
    row = sweep((256,))[0]
    store = home / "s.sqlite"
    history_store(store, row, runs=6, step=9)
    assert fmha("report", "latest", "n4", "-o", "r.html", "--store", str(store)).code == 0
    text = Path("r.html").read_text("utf-8")
    assert 'data-signal="track"' in text
    assert "There is no store" not in text


def test_filter_chooses_the_rows(fmha: Fmha, rows: str) -> None:
    assert "2 rows" in fmha("report", rows, "-o", "r.html", "--filter", "verdict:UNSUPPORTED").err
    assert fmha("report", rows, "-o", "r.html", "--filter", "verdict:TIMED_OUT").code == 5
    assert fmha("report", rows, "-o", "r.html", "--filter", "vedict:X").code == 2


def test_compare_brings_both_runs_and_the_forest_plot(fmha: Fmha, home: Path) -> None:
    calm, slow = processes(1_000_000, 1), processes(1_100_000, 2)
    old, new = saved("old.jsonl", runs_to_compare.timed(calm)), saved("new.jsonl", runs_to_compare.timed(slow))
    assert fmha("report", "--compare", old, new, "-o", "r.html").code == 0
    text = Path("r.html").read_text("utf-8")
    assert "Before: old.jsonl; after: new.jsonl. 1 row: 1 slower." in text
    assert "2 rows" in text
    done = fmha("compare", old, new, "--html", "c.html")
    assert done.code == 1
    assert "1 row: 1 slower" in done.out
    assert 'id="compare-0"' in Path("c.html").read_text("utf-8")
    assert json.loads(fmha("compare", old, new, "--html", "c.html", "--json").out)["rows"]


@pytest.mark.slow
@pytest.mark.ci
def test_svg_files_go_into_a_folder(fmha: Fmha, rows: str) -> None:
    assert fmha("report", rows, "--svg", "figures/new").code == 0
    assert {path.name for path in Path("figures/new").iterdir()} == {
        *("throughput.svg", "roofline.svg", "regret.svg", "samples.svg", "verdicts.svg")
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "a report is written into a file"),
        (("-o", "r.html"), 2, "a report is about runs"),
        (("a.json",), 2, "-o report.html"),
        (("none.json", "-o", "r.html"), 2, "no file of results"),
        (("a.json", "-o", "none/r.html"), 4, "cannot be written"),
        (("a.json", "--svg", "a.json/x"), 4, "cannot be written"),
        (("a.json", "-o", "r.html", "--compare", "a.json", "none.json"), 2, "no file of results"),
        (("nightly", "-o", "r.html", "--store", "none.sqlite"), 2, "no run is called nightly"),
    ],
)
def test_what_cannot_be_done_is_refused(fmha: Fmha, rows: str, words: tuple[str, ...], code: int, said: str) -> None:
    done = fmha("report", *words)
    assert done.code == code
    assert said in done.err
    assert not Path("r.html").exists()


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_without_the_extra_one_line_names_it(
    fmha: Fmha, rows: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for words in (
        ("report", rows, "-o", "r.html"),
        ("report", rows, "--svg", "d"),
        ("compare", rows, rows, "--html", "r.html"),
    ):
        done = fmha(*words)
        assert (done.code, done.out) == (4, "")
        assert "error[X052]" in done.err
        assert "= help: pip install 'fmha[report]'" in done.err
    assert not Path("r.html").exists()
    monkeypatch.undo()


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
@pytest.mark.slow
@pytest.mark.ci
def test_bench_draws_below_its_table_and_never_into_data(fmha: Fmha, home: Path) -> None:
    sizes = ("--seqlen", "16,32,64")
    done = fmha(*SWEPT, *sizes, "--plot", COLUMNS="80")
    assert done.code == 0, done.err
    table, _, plot = done.out.partition("3 rows: ")
    assert "against seqlen, log2" in plot
    assert max(map(len, done.out.splitlines())) <= 80
    assert "against seqlen" not in table + done.err
    for form in ("--json", "--jsonl", "--csv", "--md"):
        other = fmha(*SWEPT, *sizes, "--plot", form)
        assert "against seqlen, log2" in other.err
        assert "against seqlen" not in other.out


@pytest.mark.slow
@pytest.mark.ci
def test_bench_says_why_there_is_no_plot(fmha: Fmha, home: Path) -> None:
    done = fmha(*SWEPT, "--seqlen", "16", "--plot")
    assert done.out.splitlines()[-1].startswith("no plot: nothing is swept")


def test_without_plotext_nothing_runs(fmha: Fmha, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)
    done = fmha(*SWEPT, "--seqlen", "16,32", "--plot")
    assert (done.code, done.out) == (4, "")
    assert "= help: pip install 'fmha[report]'" in done.err


def test_nothing_that_draws_is_imported_before_it_draws() -> None:
    code = (
        "import sys; from fmha_cli.cli.commands import known_options; known_options();"
        "print([name for name in ('altair', 'vl_convert', 'plotext', 'numpy', 'fmha_cli.pages') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rows_of_a_resumed_store_run_are_those_of_the_page(fmha: Fmha, home: Path) -> None:
    """A label names the newest run that has it."""
    store = home / "s.sqlite"
    for number in (0, 1):
        from dataclasses import replace

        filled(store, *(replace(row, run=run_row(number, label="mine")) for row in kernels(count=number + 1)))
    assert "2 rows" in fmha("report", "mine", "-o", "r.html", "--store", str(store)).err
