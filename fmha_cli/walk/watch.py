"""``Watch``: hooks for sweep workers, by the numbers of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fmha_cli.report.record import Record
from fmha_cli.walk.rows import Row


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The callbacks may raise ``StopWalk``, and ``planned`` any error.

    Attributes:
        planned: takes the rows before the first one runs.
        built: takes the digests of the build cache's entries from which the rows run.
        began: takes the numbers of the rows that are dispatched together.
        ended: takes the number of a row and its record, when it is complete.
        past: records of rows that are done already, by number.
        held: descriptors that the worker process inherits: a lock stays as long as that process lives.
        journalled: whether the walk keeps its own journal.
    """

    planned: Callable[[Sequence[Row]], None] = lambda rows: None
    built: Callable[[Sequence[str]], None] = lambda digests: None
    began: Callable[[Sequence[int]], None] = lambda numbers: None
    ended: Callable[[int, Record], None] = lambda number, record: None
    past: Mapping[int, Record] = field(default_factory=dict)
    held: Sequence[int] = ()
    journalled: bool = True
