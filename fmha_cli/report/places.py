"""``PlaceEffect``: how a device or host of a sweep compares with the others, by the rows that ran on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fmha_cli.domain.members import Count
from fmha_cli.report.lines import signed


@dataclass(frozen=True, kw_only=True)
class PlaceEffect:
    """One place.

    ``ratio`` is the median, over the rows that were timed at every place of its kind, of its median time divided by the
    geometric mean of theirs. ``ratio_ci95`` is the interval of that median by order statistics.
    """

    place: Annotated[str, "device, and host in a cluster"]
    rows: Annotated[Count, "that ran at every place of its kind"]
    differing: Annotated[Count, "of these: another verdict here than at most places"]
    ratio: Annotated[float | None, "null: no such row was timed everywhere"]
    ratio_ci95: Annotated[tuple[float, float] | None, "null: too few such rows"]


def place_lines(places: Sequence[PlaceEffect]) -> list[str]:
    """One line for each place, below the table."""
    return [f"  {one.place}: {_text(one)}" for one in places]


def _text(one: PlaceEffect) -> str:
    rows = f"{one.rows} row{'' if one.rows == 1 else 's'} that ran everywhere"
    verdicts = f"; {one.differing} with another verdict than at most places" if one.differing else ""
    if one.ratio is None:
        return f"{rows}, none timed{verdicts}" if not one.differing else f"{rows}{verdicts}"
    ends = "" if one.ratio_ci95 is None else f" [{signed(one.ratio_ci95[0] - 1)}, {signed(one.ratio_ci95[1] - 1)}]"
    return f"times {signed(one.ratio - 1)}{ends} of the mean of its kind, by {rows}{verdicts}"
