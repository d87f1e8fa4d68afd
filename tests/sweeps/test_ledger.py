"""The ledger: rows out == rows planned whatever dies, at most ``retries`` deaths with a row, and what a place may lose."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.run.rows import Row
from fmha_cli.sweeps.ledger import FAILURES, Ledger
from fmha_cli.sweeps.plan import Chunk, SweepUnit

RECORD = Record(problem={}, repro="", verdict=Verdict.PASSED)


def units(count: int, rows: int = 1) -> tuple[SweepUnit, ...]:
    """Units of one kind of device with so many rows each."""
    row = Row(group=0, problem=Problem.of(seqlen=16), choice=None, plan=None)
    return tuple(SweepUnit(0, n, n * rows, (row,) * rows) for n in range(count))


def ledger_of(count: int, size: int = 4, rows: int = 1, retries: int = 2) -> Ledger:
    ledger, all = Ledger(count * rows, retries), units(count, rows)
    ledger.add(Chunk(n, 0, all[first : first + size]) for n, first in enumerate(range(0, count, size)))
    return ledger


@pytest.mark.promise("A row of a sweep is executed at least once and recorded exactly once, whatever dies.")
@pytest.mark.parametrize("seed", range(30))
def test_random_deaths_lose_and_double_no_row(seed: int) -> None:
    draw, ledger = random.Random(seed), ledger_of(40, rows=2)
    out: dict[str, tuple[Chunk, list[int]]] = {}
    recorded: list[int] = []
    for _ in range(10_000):
        if not ledger.open:
            break
        place = f"place {draw.randrange(3)}"
        if place not in out:
            if (chunk := ledger.give(0, place)) is not None:
                out[place] = chunk, [n for n, number in enumerate(chunk.numbers) if number not in ledger.done]
            continue
        chunk, left = out[place]
        if draw.random() < 0.25:
            for number in ledger.died(place, chunk.number, "killed"):
                ledger.done[number] = replace(RECORD, verdict=Verdict.CRASHED)
                recorded.append(number)
            del out[place]
        elif left:
            ledger.began(chunk.number, left[:1])
            if draw.random() < 0.8 and (number := ledger.ended(chunk.number, left.pop(0), RECORD)) is not None:
                recorded.append(number)
        else:
            ledger.closed(chunk.number)
            del out[place]
    assert not ledger.open
    assert sorted(recorded) == list(range(80))
    assert set(ledger.done) == set(range(80))
    assert max(map(len, ledger.deaths.values()), default=0) <= ledger.retries + 1


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
def test_a_row_that_kills_three_workers_is_given_up_and_takes_no_other_with_it() -> None:
    ledger = ledger_of(4)
    given_up: list[int] = []
    for attempt in range(3):
        chunk = ledger.give(0, "a")
        while chunk is not None and 1 not in chunk.numbers:
            for row in range(len(chunk.numbers)):
                ledger.began(chunk.number, [row])
                ledger.ended(chunk.number, row, RECORD)
            ledger.closed(chunk.number)
            chunk = ledger.give(0, "a")
        assert chunk is not None
        assert len(chunk.numbers) == (4 if attempt == 0 else 1)
        ledger.began(chunk.number, [chunk.numbers.index(1)])
        given_up += ledger.died("a", chunk.number, f"killed {attempt}")
    assert given_up == [1]
    assert ledger.deaths == {1: ["a (killed 0)", "a (killed 1)", "a (killed 2)"]}


def test_a_chunk_that_kills_workers_before_its_rows_run_is_given_up_as_a_whole() -> None:
    ledger, given_up = ledger_of(4), list[int]()
    for _ in range(3):
        chunk = ledger.give(0, "a")
        assert chunk is not None
        given_up += ledger.died("a", chunk.number, "killed")
    assert given_up == [0, 1, 2, 3]


def test_a_row_whose_record_never_comes_is_given_up_and_holds_no_other_back() -> None:
    ledger, given_up, rounds = ledger_of(3, size=3), [], 0
    while (chunk := ledger.give(0, "here")) is not None:
        rounds += 1
        assert rounds < 10, "the row is given out for ever"
        for row, number in enumerate(chunk.numbers):
            if number != 1:
                ledger.began(chunk.number, [row])
                ledger.ended(chunk.number, row, RECORD)
        for number in ledger.closed(chunk.number):
            given_up.append(number)
            ledger.done[number] = RECORD
    assert given_up == [1]
    assert ledger.deaths == {1: ["here (gave no readable record)"] * 3}
    assert set(ledger.done) == {0, 1, 2}


def test_a_late_record_counts_for_nothing() -> None:
    ledger = ledger_of(1)
    first = ledger.give(0, "a")
    assert first is not None
    ledger.died("a", first.number, "silent")
    second = ledger.give(0, "b")
    assert second is not None
    assert ledger.ended(first.number, 0, RECORD) is None
    assert ledger.ended(second.number, 0, RECORD) == 0
    assert ledger.ended(second.number, 0, RECORD) is None
    assert set(ledger.done) == {0}


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
def test_a_place_is_failing_after_some_deaths_in_a_row_only() -> None:
    ledger = ledger_of(40, size=1)
    for number in range(2 * FAILURES):
        chunk = ledger.give(0, "a")
        assert chunk is not None
        if number == FAILURES - 1:
            ledger.ended(chunk.number, 0, RECORD)
        ledger.died("a", chunk.number, "killed")
        assert ledger.failing("a") == (number >= 2 * FAILURES - 2)
    assert not ledger.failing("b")


def test_without_a_common_cache_kernels_are_built_by_the_first_chunk_alone() -> None:
    ledger = ledger_of(3, size=1)
    first = ledger.give(0, "a", alone=True)
    assert first is not None
    ledger.began(first.number, [0])
    assert ledger.give(0, "b", alone=True) is None
    ledger.ended(first.number, 0, RECORD)
    ledger.closed(first.number)
    assert ledger.give(0, "a", alone=True) is not None
    assert ledger.give(0, "b", alone=True) is not None


def test_rows_that_wait_for_a_kind_without_places_are_stuck() -> None:
    ledger = ledger_of(1)
    assert not ledger.stuck([(0, "a")])
    assert ledger.stuck([(1, "a")])
    chunk = ledger.give(0, "a")
    assert chunk is not None
    assert not ledger.stuck([])
    ledger.ended(chunk.number, 0, RECORD)
    ledger.closed(chunk.number)
    assert not ledger.stuck([])
