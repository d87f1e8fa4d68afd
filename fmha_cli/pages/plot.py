"""``Plot``: one of the plots of a page, with its data, or the words that take its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = Sequence[Mapping[str, Any]]
"""A dataset of a chart: plain JSON values."""

Spec = dict[str, Any]
"""A chart of Vega-Lite, without its datasets."""

ROWS = "rows"
"""The dataset that all plots share: one entry for each record."""


@dataclass(frozen=True)
class Panel:
    """One chart of a plot.

    Attributes:
        spec: its width is that of its container in the page.
        height: of the plotting area in pixels.
        least: the width below which the page scrolls it.
    """

    title: str
    spec: Spec
    height: int = 260
    least: int = 0


@dataclass(frozen=True)
class PlotChoice:
    """A choice among the contents of a plot's charts.

    Attributes:
        signal: the parameter of the charts.
        options: value -> words; the first one is shown at the beginning.
    """

    signal: str
    title: str
    options: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot.

    Attributes:
        id: the name of its SVG file, and of its section in the page.
        caption: what it shows, and under which conditions.
        panels: empty where data are missing.
        data: its own datasets, by name.
        missing: why there is nothing to draw; None where there is.
        notes: further sentences, each on its own.
    """

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...] = ()
    data: Mapping[str, Rows] = field(default_factory=dict)
    chooser: PlotChoice | None = None
    missing: str | None = None
    notes: tuple[str, ...] = ()


def spec_of(chart: Any) -> Spec:
    """The chart as JSON. Validation, which takes longer than the rest of a page, is left to the tests."""
    found: Spec = chart.to_dict(validate=False)
    for name in ("$schema", "config"):
        found.pop(name, None)
    return found


TOLD: Mapping[str, str] = {
    "row": "row",
    "problem": "problem",
    "where": "kernel",
    "run": "run",
    "conditions": "conditions",
    "time": "time",
    "again": "again",
}
"""The members of ``rows`` that every tooltip tells: member -> title."""


def told(**more: str) -> list[Any]:
    """The tooltip of a point that belongs to a record: the given members, then ``TOLD``."""
    import altair as alt

    return [alt.Tooltip(f"{name}:N", title=title) for name, title in {**more, **TOLD}.items()]


def looked_up(chart: Any) -> Any:
    """A chart whose entries name their record by ``row``, with the members of that record that tooltips tell."""
    import altair as alt

    names = [name for name in TOLD if name != "row"]
    return chart.transform_lookup(lookup="row", from_=alt.LookupData(alt.NamedData(ROWS), "row", names))
