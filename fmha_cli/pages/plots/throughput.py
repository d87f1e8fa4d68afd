"""Throughput against the sequence length: a line for each series, a panel for each head dim, type and mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fmha_cli.bench.stats import FEWEST
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import Panel, Plot, looked_up, spec_of, told
from fmha_cli.pages.rows import TimedRow, rounded, seqlen_of, shared_words, timed
from fmha_cli.pages.series import rate_unit, series_of

ID, TITLE = "throughput", "Throughput against the sequence length"
NAME = "throughput"

MOST_PANELS = 48
MOST_SERIES = 10
"""With more series than colours, a colour is a backend in a run, and intervals are bars alone."""


def plot(content: PageContent) -> Plot:
    """The plot of all rows that were timed."""
    rows = timed(content.records, content.run_of)
    if not rows:
        return Plot(id=ID, title=TITLE, caption="", missing="No row was timed, so there is no throughput to draw.")
    series = series_of(rows, ("seqlen", "hdim"), ("dtype", "mask"))
    unit, scale = rate_unit(rows)
    panels = list(dict.fromkeys(_panel(row) for row in rows))
    names = list(dict.fromkeys(series))
    few = len(names) <= MOST_SERIES
    colored = series if few else _coarse(rows)
    colors = list(dict.fromkeys(colored))
    data = [
        {
            "row": row.row,
            "panel": panels.index(_panel(row)),
            "line": names.index(name),
            "series": color,
            "seqlen": seqlen_of(row.record),
            **_rates(row, scale),
            "few": len(row.measured.launches) < FEWEST,
            "won": row.record.lead is not None,
        }
        for row, name, color in zip(rows, series, colored, strict=True)
    ]
    drawn = panels[:MOST_PANELS]
    notes = (
        [f"{len(panels) - len(drawn)} further panels are not drawn; --filter chooses rows."] if panels != drawn else []
    )
    if any(entry["won"] for entry in data):
        notes.append("A star is the fastest of several backends at its point.")
    return Plot(
        id=ID,
        title=TITLE,
        caption=f"Band and bar: 95 % interval of the median. Hollow: fewer than {FEWEST} samples. "
        f"{shared_words([row.record for row in rows])}.",
        panels=tuple(
            Panel(title, _chart(number, [e for e in data if e["panel"] == number], colors, unit, bands=few), 240)
            for number, title in enumerate(drawn)
        ),
        data={NAME: data},
        notes=tuple(notes),
    )


def _coarse(rows: Sequence[TimedRow]) -> list[str]:
    """Backend and run of each row if there are colours for all of them, else the backend."""
    found = [f"{row.backend}, {row.run}" for row in rows]
    return found if len(set(found)) <= MOST_SERIES else [row.backend for row in rows]


def _rates(row: TimedRow, unit: float) -> dict[str, float | None]:
    measured, ends = row.measured, row.interval_ns
    low, high = (None, None) if ends is None else (measured.flops / max(1, ns) * 1e9 / unit for ns in reversed(ends))
    return {
        "rate": rounded(row.rate / unit),
        "low": None if low is None else rounded(low),
        "high": None if high is None else rounded(high),
    }


def _panel(row: TimedRow) -> str:
    problem = row.record.problem
    dims = f"d{problem['hdim']}" + (f"/{problem['hdim_v']}" if problem["hdim_v"] != problem["hdim"] else "")
    return f"{dims} {problem['dtype']} {problem['mask']}"


def _chart(
    number: int, entries: Sequence[dict[str, Any]], colors: Sequence[str], unit: str, *, bands: bool
) -> dict[str, Any]:
    import altair as alt

    lengths = sorted({entry["seqlen"] for entry in entries})
    here = [name for name in colors if any(entry["series"] == name for entry in entries)]
    x = alt.X(
        "seqlen:Q",
        title="sequence length",
        scale=alt.Scale(type="log", base=2, nice=False, domain=[lengths[0] / 1.3, lengths[-1] * 1.3]),
        axis=alt.Axis(values=_ticks(lengths), labelExpr=THOUSANDS, labelOverlap=True, labelSeparation=5, grid=False),
    )
    legend = (
        alt.Legend(title=None, orient="top", columns=2, values=here, symbolLimit=0, symbolOpacity=1)
        if len(colors) > 1
        else None
    )
    color = alt.Color("series:N", scale=alt.Scale(domain=list(colors)), legend=legend)
    base = (
        alt.Chart(alt.NamedData(NAME), height=240, width="container")
        .transform_filter(alt.FieldEqualPredicate(field="panel", equal=number))
        .encode(x=x)
    )
    y = alt.Y("rate:Q", title=unit, scale=alt.Scale(zero=True))
    shared: dict[str, Any] = {"color": color, "detail": "line:N"}
    ends = {"y": alt.Y("low:Q", title=unit), "y2": "high:Q"}
    band = base.mark_area(opacity=0.18, line=False).encode(**shared, **ends)
    bar = base.mark_rule(strokeWidth=1.2).encode(**shared, **ends)
    line = base.mark_line(strokeWidth=1.6).encode(y=y, **shared)
    point = (
        looked_up(base)
        .mark_point(size=46, filled=True, strokeWidth=1.6)
        .encode(
            y=y,
            stroke=color,
            fill=color,
            fillOpacity=alt.condition("datum.few", alt.value(0), alt.value(1)),
            detail="line:N",
            tooltip=told(series="series", rate=unit),
        )
    )
    layers = [*([band] if bands else []), bar, line, point]
    if any(entry["won"] for entry in entries):
        star = base.transform_filter("datum.won").mark_text(text="★", dy=-11, style="mark", aria=False)
        layers.append(star.encode(y=y))
    return spec_of(alt.layer(*layers))


THOUSANDS = "datum.value >= 1024 && datum.value % 1024 == 0 ? datum.value / 1024 + 'k' : format(datum.value, 'd')"
"""``4k`` for 4096, as sizes are written on the command line."""


def _ticks(lengths: Sequence[int]) -> list[int]:
    """The lengths themselves; of many, the powers of two, at most eight."""
    powers = [length for length in lengths if length & (length - 1) == 0]
    shown = powers if len(lengths) > 6 and len(powers) > 1 else list(lengths)
    return shown[:: -(-len(shown) // 8)]
