"""The samples of a chosen row, by process: two levels, drift and single outliers show here and in no median."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fmha_cli.bench.processes import split
from fmha_cli.bench.stats import quantile
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import ROWS, Panel, Plot, PlotChoice, spec_of
from fmha_cli.pages.plots.history import SECONDS
from fmha_cli.pages.rows import timed, where_of
from fmha_cli.report.lines import problem_text

ID, TITLE = "samples", "Samples by process"
NAME = "samples"
SIGNAL = "chosen"

MOST = 11
"""Quantiles of one process in a page: its least, its largest, and those between them."""
FEWEST = 5
BUDGET = 60_000
"""Quantiles of all rows in a page; each is four bytes or so."""


def plot(content: PageContent) -> Plot:
    """The plot of all rows that were timed, one at a time."""
    rows = timed(content.records, content.run_of)
    if not rows:
        return Plot(id=ID, title=TITLE, caption="", missing="No row was timed, so there are no samples.")
    processes = [split(row.measured.samples_ns, row.measured.process_of_sample) for row in rows]
    kept = max(FEWEST, min(MOST, BUDGET // sum(map(len, processes))))
    data = [
        {"row": row.row, "process": number, "unit": unit, "level": round(ns / unit)}
        for row, parts in zip(rows, processes, strict=True)
        for unit in (unit_of(row.median_ns),)
        for number, part in enumerate(parts)
        for ns in quantiles(part, kept)
    ]
    options = {row.row: f"{row.row}: {problem_text(row.record.problem)}, {where_of(row.record)}" for row in rows}
    first = max(rows, key=lambda row: (len(set(row.measured.process_of_sample or (0,))), -row.row)).row
    order = {first: options[first], **options}
    return Plot(
        id=ID,
        title=TITLE,
        caption=f"Quantiles of each process, evenly spaced, at most {kept} of them, from its fastest sample to its slowest. "
        "A click on a point of another plot chooses its row.",
        panels=(Panel("", _chart(first), 240),),
        data={NAME: data},
        chooser=PlotChoice(SIGNAL, "row", order),
    )


def unit_of(median_ns: int) -> int:
    """The unit of a row's levels, in nanoseconds: five digits of the median remain, which take less room."""
    return int(10 ** max(0, len(str(median_ns)) - 5))


def quantiles(samples: Sequence[int], most: int) -> list[int]:
    """All samples in order, or so many of their quantiles, the extremes included."""
    if len(samples) <= most:
        return sorted(samples)
    return [round(quantile(samples, place / (most - 1))) for place in range(most)]


def _chart(first: int) -> dict[str, Any]:
    import altair as alt

    chosen = alt.param(name=SIGNAL, value=first)
    base = alt.Chart(alt.NamedData(NAME), height=240, width="container").transform_filter(f"datum.row == {SIGNAL}")
    base = base.transform_calculate(ns="datum.level * datum.unit")
    y = alt.Y("ns:Q", title="time", scale=alt.Scale(zero=False), axis=alt.Axis(labelExpr=SECONDS))
    x = alt.X("process:O", title="process", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    again = alt.LookupData(alt.NamedData(ROWS), "row", ["again"])
    point = (
        base.transform_lookup(lookup="row", from_=again)
        .mark_point(size=34, opacity=0.75, strokeWidth=1.4)
        .encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("process:O"),
                alt.Tooltip("ns:Q", title="time [ns]", format=",d"),
                alt.Tooltip("again:N"),
            ],
        )
    )
    middle = (
        base.transform_aggregate(middle="median(ns)", groupby=["process"])
        .mark_tick(style="middle", width=26, thickness=2, orient="horizontal", aria=False)
        .encode(x=x, y=alt.Y("middle:Q", title="time", axis=alt.Axis(labelExpr=SECONDS), scale=alt.Scale(zero=False)))
    )
    return spec_of(alt.layer(point, middle).add_params(chosen))
