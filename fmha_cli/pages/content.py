"""``PageContent``: everything that a page shows, gathered before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fmha_cli.report.record import Record
from fmha_cli.results.changes import Track
from fmha_cli.results.run import KeptRun


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """The subject of a page.

    Attributes:
        runs: in the order in which they were named.
        comparison: ``fmha.compare/1``; None without one.
        tracks: histories of rows over the runs of the store, with the place of their row in ``records``.
        untracked: why there is no history, or why it is not that of every row; empty if nothing is left out.
    """

    title: str
    runs: Sequence[KeptRun]
    comparison: Mapping[str, Any] | None = None
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
