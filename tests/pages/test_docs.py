"""What docs/report.md states of the page, and the pictures of the docs."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.pages import gathering
from fmha_cli.pages.page import plots
from fmha_cli.pages.plots import forest, regret, samples, throughput
from fmha_cli.results.changes import LAST
from tests.support.generators.page_contents import bare_content

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "report.md").read_text("utf-8")
LARGEST = 150_000
"""Bytes of a picture."""


def test_the_page_names_every_plot_and_limit() -> None:
    for plot in plots(bare_content()):
        assert f"| `{plot.id}` |" in PAGE
    assert f"{samples.MOST} quantiles of each process" in PAGE
    limits = throughput.MOST_PANELS, regret.MOST_PROBLEMS, regret.MOST_COLUMNS, forest.MOST
    assert "{} panels; {} problems by {} columns; the {} rows farthest from 1".format(*limits) in PAGE
    assert f"{gathering.MOST_TRACKS} rows, the last {gathering.MOST_RUNS} runs of each" in PAGE
    assert f"{LAST} runs before it" in PAGE


def test_pictures_are_small_and_shown() -> None:
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    texts = PAGE + (ROOT / "README.md").read_text("utf-8")
    assert 1 <= len(pictures) <= 3
    for picture in pictures:
        assert picture.stat().st_size <= LARGEST, picture
        assert f"images/{picture.name})" in texts
