"""History: the time of a point over the runs of the store, with its change points."""

from __future__ import annotations

from typing import Any

from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import ROWS, Panel, Plot, PlotChoice, spec_of
from fmha_cli.pages.rows import where_of
from fmha_cli.pages.theme import SPEEDS
from fmha_cli.report.lines import SHORT, problem_text
from fmha_cli.results.changes import LAST, Track

ID, TITLE = "history", "History"
NAME = "history"
SIGNAL = "track"


def plot(content: PageContent) -> Plot:
    """The plot of all rows that have a history."""
    if not content.tracks:
        return Plot(id=ID, title=TITLE, caption="", missing=content.untracked or "No row has a history.")
    options = {
        number: f"{problem_text(content.records[place].problem)}, {where_of(content.records[place])}"
        + (" (changed)" if track.changes else "")
        for number, (place, track) in enumerate(content.tracks)
    }
    changed = [number for number, (_, track) in enumerate(content.tracks) if track.changes]
    order = [*changed, *(number for number in options if number not in changed)]
    data = [
        entry for number, (place, track) in enumerate(content.tracks) for entry in _entries(number, place + 1, track)
    ]
    return Plot(
        id=ID,
        title=TITLE,
        caption="Median and its 95 % interval in every run that the store has of the point, in the order of the runs. A triangle marks a "
        f"change that is sure by the rule of fmha compare against the last {LAST} runs: up is slower, down is faster.",
        panels=(Panel("", _chart(order[0])),),
        data={NAME: data},
        chooser=PlotChoice(SIGNAL, "point", {number: options[number] for number in order}),
        notes=(content.untracked,) if content.untracked else (),
    )


def _entries(number: int, row: int, track: Track) -> list[dict[str, Any]]:
    out = []
    for place, point in enumerate(track.points):
        ends, change = point.interval_ns, track.changes.get(place)
        out.append(
            {
                "track": number,
                "row": row,
                "at": f"{place:04d} {point.label or (point.revision or point.run)[:SHORT]}",
                "ns": point.median_ns,
                "low": None if ends is None else ends[0],
                "high": None if ends is None else ends[1],
                "run": point.run[:SHORT],
                "rev": (point.revision or "")[:12],
                "label": point.label or "",
                "started": point.started,
                "change": "" if change is None else f"{change.speed.value}, {change.ratio:.3f} times the time",
                "speed": "" if change is None else change.speed.value,
            }
        )
    return out


def _chart(first: int) -> dict[str, Any]:
    import altair as alt

    track = alt.param(name=SIGNAL, value=first)
    base = (
        alt.Chart(alt.NamedData(NAME), height=260, width="container")
        .transform_filter(f"datum.track == {SIGNAL}")
        .encode(
            x=alt.X(
                "at:O",
                title="run, the oldest first",
                axis=alt.Axis(labelExpr="slice(datum.label, 5)", labelAngle=-40, labelOverlap=True, labelLimit=110),
            ),
        )
    )
    y = alt.Y("ns:Q", title="time", scale=alt.Scale(zero=False), axis=alt.Axis(labelExpr=SECONDS))
    told = {
        "run": "run",
        "rev": "rev",
        "label": "label",
        "started": "started",
        "ns": "median [ns]",
        "low": "from",
        "high": "to",
        "change": "change",
    }
    tooltip = [*(alt.Tooltip(f"{name}:N", title=title) for name, title in told.items()), alt.Tooltip("again:N")]
    bar = base.mark_rule(strokeWidth=1.4).encode(
        y=alt.Y("low:Q", title="time", axis=alt.Axis(labelExpr=SECONDS)), y2="high:Q", color=alt.value(SPEEDS["same"])
    )
    line = base.mark_line(strokeWidth=1, opacity=0.6, color=SPEEDS["same"]).encode(y=y)
    kinds = ["", "slower", "faster"]
    colors, shapes = [SPEEDS["same"], *(SPEEDS[kind] for kind in kinds[1:])], ["circle", "triangle-up", "triangle-down"]
    again = alt.LookupData(alt.NamedData(ROWS), "row", ["again"])
    point = (
        base.transform_lookup(lookup="row", from_=again)
        .mark_point(filled=True, opacity=1)
        .encode(
            y=y,
            size=alt.condition("datum.speed != ''", alt.value(210), alt.value(44)),
            color=alt.Color("speed:N", scale=alt.Scale(domain=kinds, range=colors), legend=None),
            shape=alt.Shape("speed:N", scale=alt.Scale(domain=kinds, range=shapes), legend=None),
            tooltip=tooltip,
        )
    )
    return spec_of(alt.layer(bar, line, point).add_params(track))


SECONDS = "format(datum.value / 1e9, '.3~s') + 's'"
"""``812µs`` for a number of nanoseconds."""
