"""The events of a run: their order, and what is left when the iterator is closed or interrupted at any of them."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import get_args

import pytest

from fmha_cli import api
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.run.events import Built, Done, Ended, Event, Found, Judged, Planned, Started
from fmha_cli.run.request import Request
from fmha_cli.run.run import Run
from tests.support.paths import ROOT

PROBLEMS = tuple(api.Problem.from_cli(f"-H {heads} -s 8 -d 8 --dtype fp32") for heads in (1, 2, 3))
ORDER = (Found, Planned, Built, *(Started, Judged, Done) * len(PROBLEMS), Ended)


def run_of(**options: str) -> Run:
    return Run(PROBLEMS, Request(backend="null", **options), build_registry())


def lasting(record: Record) -> object:
    """What a record says, without the times, which differ."""
    return record.row, record.verdict, record.comparisons, record.notes


def test_events_come_in_order() -> None:
    events = list(run_of())
    assert tuple(map(type, events)) == ORDER
    assert [event.number for event in events if isinstance(event, Done)] == [0, 1, 2]
    assert all(event.outputs["o"].shape == (1, n + 1, 8, 8) for n, event in enumerate(judged(events)))
    ended = events[-1]
    assert isinstance(ended, Ended)
    assert [event.record for event in events if isinstance(event, Done)] == list(ended.records)
    assert (ended.interrupted, ended.unwritten) == (False, ())


def judged(events: list[Event]) -> list[Judged]:
    return [event for event in events if isinstance(event, Judged)]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("stop", ["close", "interrupt"])
def test_a_run_that_is_stopped_at_any_event_loses_no_row(tmp_path: Path, stop: str) -> None:
    whole = [lasting(record) for record in run_of().records()]
    for last in count():
        journal = tmp_path / f"journal{last}"
        run, done = run_of(journal=str(journal)), []
        for place, event in enumerate(run):
            done += [event.number] if isinstance(event, Done) else []
            if place == last:
                run.close() if stop == "close" else run.interrupt()
                break
        if stop == "interrupt":
            with suppress(KeyboardInterrupt):  # before there are rows, or behind the last event
                done += [event.number for event in run if isinstance(event, Done)]
        if last == len(ORDER):
            break
        if last < ORDER.index(Built):
            assert run.ended is None
            continue
        assert run.ended is not None
        assert run.ended.interrupted == (last < len(ORDER) - 1)
        assert len(run.ended.records) == len(PROBLEMS)
        judged_by_then = sum(event is Judged for event in ORDER[: last + 1])
        unfinished = [record for record in run.ended.records if record.verdict is Verdict.NOT_RUN]
        assert len(unfinished) == len(PROBLEMS) - judged_by_then
        assert len(done) <= judged_by_then
        assert [lasting(record) for record in run_of(resume=str(journal)).records()] == whole
    assert last == len(ORDER)


def test_a_run_that_is_over_cannot_be_interrupted() -> None:
    run = run_of()
    assert run.finish().records
    assert not run.interrupt()
    assert list(run) == []


def test_the_architecture_page_has_every_event() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    section = page.split("## The events of a run\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert named == [event.__name__ for event in get_args(Event)]
