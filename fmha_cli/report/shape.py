"""``TableShape``: which part of a table is shown, in which order and how wide (``--columns``, ``--sort``, ``--limit``, ``--wide``).

A column is named by its header without the unit (``time``), or as CSV names it (``measurement.median_ns``). CSV takes
the second kind of names for its columns and always holds every row. JSON and JSON Lines have no shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import suggest
from fmha_cli.report.ordering import key_of

if TYPE_CHECKING:
    from fmha_cli.report.column import Column


@dataclass(frozen=True)
class TableShape:
    """How a table is shown.

    Attributes:
        width: columns of the terminal; None: nothing is shortened, left out or wrapped.
        columns: the names of the columns in their order; empty if the table chooses.
        sort: the names of the columns that order the rows, the first of them first; with ``:desc``, downwards.
        limit: the most rows.
        summed: whether to show the summary line.
    """

    width: int | None = None
    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    limit: int | None = None
    summed: bool = True

    @property
    def whole(self) -> bool:
        """Whether nobody asked for a part of the table."""
        return not (self.columns or self.sort or self.limit)

    def check(self, columns: Sequence[Column], paths: Iterable[str]) -> None:
        """Refuse names that are neither columns of a table nor paths of CSV.

        Raises:
            UsageError: E017, with near names.
        """
        own = list(dict.fromkeys(column.name for column in columns))
        known = {*own, *paths}
        for flag, names in (("--columns", self.columns), ("--sort", (key_of(name) for name in self.sort))):
            for name in names:
                if name not in known:
                    near = suggest(name, known)
                    listed = f"the columns are {', '.join(own)}" if own else "the first line of --csv has all"
                    listed += " (and those of --csv)" if own and known - set(own) else ""
                    help = f"{near} {listed}" if near.startswith("did you mean") else listed
                    raise UsageError(f"{flag} {name}: no such column", code="E017", where=flag, help=help)
