"""The plot of ``fmha bench --plot``: every series, the swept axis, and words where there is nothing to draw."""

from __future__ import annotations

import itertools
import re

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.pages.terminal import LETTERS, terminal_plot
from tests.support.generators.page_contents import HOSTILE, failed, sweep, timed


def test_every_series_has_a_letter_and_every_length_a_tick() -> None:
    text = terminal_plot(sweep(), 80)
    lines = text.splitlines()
    assert lines[0] == "TFLOP/s against seqlen, log2; the bars are 95 % intervals of the median"
    assert max(map(len, lines)) <= 80
    assert all(tick in text for tick in ("256", "512", "1k", "2k", "4k"))
    legend = [line.split(maxsplit=1) for line in lines if re.match(r"  [a-l] ", line)]
    assert len(legend) == 12
    assert legend[0][1].startswith("cpu, ")
    drawn = "\n".join(lines[1:-12])
    assert "│" in drawn
    assert sum(letter in drawn for letter in LETTERS) >= 6


def test_a_narrow_terminal_gets_no_wider_line() -> None:
    assert max(map(len, terminal_plot(sweep(), 40).splitlines())) <= 40


def test_points_stand_at_equal_distances_for_doubled_lengths() -> None:
    rows = [timed(Problem.of(seqlen=n, dtype="fp32"), processes=1, samples=1) for n in (64, 128, 256, 512)]
    line = next(line for line in terminal_plot(rows, 80).splitlines() if "128" in line and "512" in line)
    places = [line.index(text) + len(text) / 2 for text in ("64", "128", "256", "512")]
    steps = [b - a for a, b in itertools.pairwise(places)]
    assert max(steps) - min(steps) <= 3


def test_another_axis_is_taken_where_lengths_are_equal() -> None:
    rows = [timed(Problem.of(batch=n, dtype="fp32")) for n in (1, 2, 4)]
    assert "against batch" in terminal_plot(rows, 80)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([timed(Problem.of(dtype="fp32"))], "no plot: nothing is swept"),
        ([failed(Problem.of(dtype="fp32"))], "no plot: no row was timed"),
        ([], "no plot: no row was timed"),
    ],
)
def test_without_anything_to_draw_one_line_says_why(rows: list[object], words: str) -> None:
    text = terminal_plot(rows, 80)  # type: ignore[arg-type]
    assert text.startswith(words)
    assert "\n" not in text


def test_colours_only_where_they_are_wanted_and_names_do_no_harm() -> None:
    rows = [timed(Problem.of(seqlen=n, dtype="fp32"), HOSTILE) for n in (64, 128)]
    assert "\x1b" not in terminal_plot(rows, 80)
    assert "\x1b[" in terminal_plot(rows, 80, color=True)
    assert "\x1b[31m" not in terminal_plot(rows, 80, color=True).splitlines()[-1]


def test_more_series_than_letters_are_counted() -> None:
    rows = [timed(Problem.of(seqlen=n, dtype="fp32"), f"b{m}") for n in (64, 128) for m in range(15)]
    assert "3 further series are not drawn" in terminal_plot(rows, 80)
