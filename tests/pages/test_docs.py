"""What the docstring of ``fmha_cli.pages`` states of the page, and the pictures of the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

import fmha_cli.pages
from fmha_cli.pages import content
from fmha_cli.pages.page import plots
from fmha_cli.pages.plots import forest, regret, samples, throughput
from fmha_cli.results.changes import LAST
from tests.support.generators.page_contents import bare_content
from tools.pages import pages

ROOT = Path(__file__).parents[2]
STATED = " ".join((fmha_cli.pages.__doc__ or "").split())
LARGEST = 150_000
"""Bytes of a picture."""


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
def test_the_docstring_names_every_plot_and_limit() -> None:
    for plot in plots(bare_content()):
        assert f"- ``{plot.id}``:" in STATED
    assert f"{samples.MOST} quantiles of each process" in STATED
    limits = throughput.MOST_PANELS, regret.MOST_PROBLEMS, regret.MOST_COLUMNS, forest.MOST
    assert "{} panels; {} problems by {} columns; the {} rows farthest from 1".format(*limits) in STATED
    assert f"{content.MOST_TRACKS} rows, the last {content.MOST_RUNS} runs of each" in STATED
    assert f"{LAST} runs before it" in STATED


@pytest.mark.promise("`fmha report` writes a self-contained HTML page, and `bench --plot` draws in the terminal.")
def test_pictures_are_small_and_shown() -> None:
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    texts = "".join(page.read_text("utf-8") for page in pages())
    assert 1 <= len(pictures) <= 3
    for picture in pictures:
        assert picture.stat().st_size <= LARGEST, picture
        assert f"images/{picture.name})" in texts
