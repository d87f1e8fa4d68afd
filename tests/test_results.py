"""``results/``: every page has its head and at most 1,000 words, tables are those of the data, and all data can be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import results
from tools.result_data import RESULTS, data_of, write_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pages with their data and their list, and the script that one names."""
    copy = tmp_path / "results"
    for name in ("store.md", "emulator_parity.md", "data/store.json.xz", "data/emulator_parity.json.xz"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(RESULTS / name, copy / name)
    for script in {name for page in copy.glob("*.md") for name in results.scripts_of(page.read_text("utf-8"))}:
        (tmp_path / script).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / script).touch()
    results.write(copy)
    return copy


def test_nothing_is_wrong_with_the_results(folder: Path) -> None:
    assert list(results.faults()) == list(results.faults(folder)) == []


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    document = {"rows": [{"a": 1.5, "b": None}] * 100}
    write_json(tmp_path / "one.json.xz", document)
    write_json(tmp_path / "one.json", document)
    assert results.read_json(tmp_path / "one.json.xz") == results.read_json(tmp_path / "one.json") == document
    assert (tmp_path / "one.json.xz").stat().st_size < (tmp_path / "one.json").stat().st_size / 10


def test_show_prints_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert results.main(["show", "store"]) == 0
    assert '"records": 1000000' in capsys.readouterr().out
    assert data_of("store")["records"] == 1_000_000


def edit(old: str, new: str) -> Callable[[Path], object]:
    """A change of a page's text."""

    def change(folder: Path) -> None:
        page = folder / "store.md"
        text = page.read_text("utf-8")
        assert old in text
        page.write_text(text.replace(old, new, 1), "utf-8")

    return change


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edit("| processor |", "| machine |"), "store.md: the table at its head has no processor"),
        (edit("\n\n", "\n\n" + "word " * 1000 + "\n\n"), "words, more than 1000"),
        (edit("benchmarks/store_bars.py", "benchmarks/no_bars.py"), "store.md: no script benchmarks/no_bars.py"),
        (edit("data/store.json.xz", "data/stores.json.xz"), "no data stores.json.xz, which a page names"),
        (edit("data/store.json.xz", "data/stores.json.xz"), "data/store.json.xz: no page names it"),
        (edit("# The store", "# A store"), "README.md is stale"),
        (lambda folder: (folder / "data" / "store.json.xz").write_bytes(b"no xz"), "data/store.json.xz cannot be read"),
        (lambda folder: (folder / "data" / "store.json.xz").write_bytes(bytes(10**6)), "bytes, more than 1000000"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_named(folder: Path, change: Callable[[Path], object], said: str) -> None:
    change(folder)
    assert [fault for fault in results.faults(folder) if said in fault]


def test_a_changed_figure_of_a_table_is_noticed_and_mended(folder: Path) -> None:
    page = folder / "emulator_parity.md"
    text = page.read_text("utf-8")
    figures = text.partition("<!-- table")[2]
    page.write_text(text.replace(figures, figures.replace(" 14 ", " 15 ", 1)), "utf-8")
    assert [fault for fault in results.faults(folder) if "emulator_parity.md: a table differs from its data" in fault]
    results.write(folder)
    assert page.read_text("utf-8") == text
