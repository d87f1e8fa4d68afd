"""``Column``: how a table shows one member of its rows, and what may happen to it on a narrow terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fmha_cli.report.lines import cell

_UNDERSCORES = str.maketrans(" -", "__")


class Fit(Enum):
    """What may happen to the cells of a column that is too wide."""

    WHOLE = "nothing: a number, a verdict, a digest that is short already"
    MIDDLE = "an ellipsis in the middle: both ends of a name or path identify it"
    END = "an ellipsis at the end: the front identifies it"
    FOLD = "line breaks between words: prose"


class Color(Enum):
    """A colour of a terminal, by its code."""

    RED = 31
    GREEN = 32
    YELLOW = 33


@dataclass(frozen=True)
class Column:
    """How a table shows one member of its rows.

    Attributes:
        header: the header, with the unit in brackets.
        text: turns the member into a cell; of ``table_by``, the row, into a cell or a quantity.
        number: whether cells are aligned to the right.
        fit: what happens if the terminal is too narrow.
        least: the fewest columns that a column keeps when it is shortened or folded.
        rank: where columns must be left out, the ones of the highest rank go first, among equals the last; 0 stays
            longest.
        common: how the line above the table tells a value that all rows share, in place of the column; None for a result,
            which always has its column.
        words: the cell is a list of words, each of which may be common to all rows.
        path: the member's name in CSV (``measurement.median_ns``), the key that sorts rows; empty if it has none.
        called: the name for ``--columns`` and ``--sort``; empty for that of the header.
        paint: the colour of a cell's first word, by that word.
    """

    header: str
    text: Callable[[Any], Any] = cell
    number: bool = False
    fit: Fit = Fit.WHOLE
    least: int = 16
    rank: int = 0
    common: Callable[[str], str] | None = None
    words: bool = False
    path: str = ""
    called: str = ""
    paint: Mapping[str, Color] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Its name on the command line: the header without the unit."""
        return self.called or self.header.partition(" [")[0].partition(" (")[0].translate(_UNDERSCORES)
