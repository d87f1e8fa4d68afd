"""``PageContent``: everything that a page shows, gathered from runs and the store before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.pages.rows import timed
from fmha_cli.report.documents.compare import Compare
from fmha_cli.report.record import Record
from fmha_cli.results.changes import Track, tracked
from fmha_cli.results.parts import about
from fmha_cli.results.queries import history
from fmha_cli.results.run import KeptRun
from fmha_cli.results.store import Store

MOST_TRACKS = 40
"""Rows whose history a page has."""
MOST_POINTS = 4_000
"""Points of all histories of a page."""
MOST_RUNS = 200
"""The latest runs of one history."""


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """The subject of a page.

    Attributes:
        runs: in the order in which they were named.
        comparison: None without one.
        tracks: histories of rows over the runs of the store, with the place of their row in ``records``.
        untracked: why there is no history, or why it is not that of every row; empty if nothing is left out.
    """

    title: str
    runs: Sequence[KeptRun]
    comparison: Compare | None = None
    tracks: Sequence[tuple[int, Track]] = ()
    untracked: str = ""

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records of all runs; row n of the page is number n - 1."""
        return tuple(record for run in self.runs for record in run.records)

    @cached_property
    def run_of(self) -> tuple[str, ...]:
        """The name of each record's run."""
        return tuple(run.name for run in self.runs for _ in run.records)


def gathered(title: str, runs: Sequence[KeptRun], store: Path, comparison: Compare | None = None) -> PageContent:
    """The content of a page about some runs.

    Args:
        store: path of the store, in which earlier runs of the same points are looked up. A store that is not there or cannot be
            used costs the history alone, and the page says so.
    """
    content = PageContent(title=title, runs=runs, comparison=comparison)
    tracks, why = _tracks(content, store)
    return PageContent(title=title, runs=runs, comparison=comparison, tracks=tracks, untracked=why)


def _tracks(content: PageContent, path: Path) -> tuple[list[tuple[int, Track]], str]:
    """The histories of at least two runs, with the place of their row; and what is missing, in words."""
    if not path.exists():
        return [], "There is no store of results, so no row has a history. fmha bench keeps its runs there."
    rows = {about(row.record): row for row in timed(content.records, content.run_of)}
    found: list[tuple[int, Track]] = []
    points = 0
    try:
        with Store.open(path, create=False, reads=True) as store:
            for looked, row in enumerate(rows.values()):
                if len(found) == MOST_TRACKS or points > MOST_POINTS:
                    rest = len(rows) - looked
                    return (
                        found,
                        f"{len(found)} histories are drawn; {rest} further rows were not looked up. --filter chooses rows.",
                    )
                known = history(store, row.record)[-MOST_RUNS:]
                if len(known) > 1:
                    found.append((row.row - 1, tracked(known)))
                    points += len(known)
    except EnvironmentProblem as fault:
        return [], f"No history: {fault.in_one_line}."
    if found:
        return found, ""
    return [], "The store has no second run of any of these rows, so there is no history."
