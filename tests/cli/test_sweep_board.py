"""The board of a sweep: rate, time left, one line for each worker, within the terminal."""

from __future__ import annotations

import pytest

from fmha_cli.cli.sweep_board import WORKERS, SweepBoard


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.promise("The progress of a sweep has a rate, an estimate and each worker's row.")
def test_rate_and_time_left_come_from_the_rows_that_are_done() -> None:
    clock = Clock()
    board = SweepBoard(lambda text: None, terminal=False, clock=clock)
    board.update(0, 100, 0, [])
    clock.now = 30.0
    board.update(20, 100, 0, [])
    assert board.summary() == "sweep: 20/100 rows, 40 rows/min, 30 s, about 2 min left"
    board.update(100, 100, 2, [])
    assert board.summary().endswith("100/100 rows, 200 rows/min, 30 s, 2 workers lost")


def test_a_resumed_sweep_does_not_count_old_rows_as_fast_ones() -> None:
    clock = Clock()
    board = SweepBoard(lambda text: None, terminal=False, clock=clock)
    board.update(90, 100, 0, [])
    clock.now = 60.0
    board.update(91, 100, 0, [])
    assert "1 rows/min" in board.summary()
    assert "about 9 min left" in board.summary()


@pytest.mark.promise("The progress of a sweep has a rate, an estimate and each worker's row.")
def test_the_lines_fit_the_terminal_and_are_taken_back() -> None:
    written: list[str] = []
    board = SweepBoard(written.append, terminal=True, width=lambda: 80, clock=Clock())
    board.update(1, 20, 0, [(f"cuda:{n}", f"-b 1 -s 4096 --mask window:{'9' * 100},0") for n in range(WORKERS + 3)])
    board.tick()
    lines = written[-1].split("\n")
    assert len(lines) == WORKERS + 2 < 24
    assert max(map(len, lines)) < 80
    assert lines[-1] == "  and 3 more workers"
    board.erase()
    assert written[-1].count("\x1b[A") == len(lines) - 1
    board.erase()
    assert len(written) == 2


def test_without_a_terminal_there_is_one_plain_line() -> None:
    written: list[str] = []
    board = SweepBoard(written.append, terminal=False, clock=Clock())
    board.tick()
    board.update(1, 20, 0, [("cuda:0", "-s 16")])
    board.tick()
    assert written == ["sweep: 1/20 rows, 0 s\n"]
