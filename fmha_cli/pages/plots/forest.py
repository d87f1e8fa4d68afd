"""Forest plot of a comparison: the ratio of each row with its interval, sorted, and the tolerance as a band."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fmha_cli.domain.encode import canonical_json
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import ROWS, Panel, Plot, spec_of
from fmha_cli.pages.rows import percent_text, rounded, varying
from fmha_cli.pages.theme import SPEEDS
from fmha_cli.report.documents.compare import CompareRow, RowSide, compare_summary, where_text
from fmha_cli.report.lines import problem_text
from fmha_cli.results.documents import row_side

ID, TITLE = "compare", "Comparison"
NAME, BAND = "compare", "tolerance"
MOST = 80
"""Rows that are drawn; the table below has all of them."""


def plot(content: PageContent) -> Plot:
    """The plot of the comparison."""
    document = content.comparison
    if document is None:
        return Plot(id=ID, title=TITLE, caption="", missing="Nothing is compared: --compare BEFORE AFTER.")
    found = [(row.difference.ratio, row) for row in document.rows if row.difference.ratio]
    caption = (
        f"Before: {document.before.name}; after: {document.after.name}. {compare_summary(document)}. "
        f"Right of 1 is slower. Band: differences of up to {percent_text(document.tolerance)} % count as none."
    )
    if not found:
        return Plot(id=ID, title=TITLE, caption=caption, missing="No row has times on both sides.")
    found.sort(key=lambda item: -abs(math.log(item[0])))
    shown = [row for _, row in sorted(found[:MOST], key=lambda item: -item[0])]
    texts = [f"{problem_text(row.problem)} {where_text(row.after, row.cache)}".rstrip() for row in shown]
    names, shared = varying(texts)
    places = _places(content)
    data = [
        {**_entry(f"{number}  {name}", row), "row": places.get(_key(row.problem, row.cache, row.after))}
        for number, (name, row) in enumerate(zip(names, shown, strict=True), 1)
    ]
    notes = list(document.notes)
    if len(found) > MOST:
        notes.insert(0, f"The {MOST} rows farthest from 1 are drawn; the table below has all {len(found)}.")
    within = 1 + document.tolerance
    height = 40 + 20 * len(data)
    return Plot(
        id=ID,
        title=TITLE,
        caption=caption + (f" All rows: {shared}." if shared else ""),
        panels=(Panel("", _chart(data, height), height),),
        data={NAME: data, BAND: [{"from": rounded(1 / within), "to": rounded(within)}]},
        notes=tuple(notes),
    )


def _places(content: PageContent) -> dict[str, int]:
    """The number of the last record of each problem, cache mode, device and kernel."""
    return {
        _key(
            record.problem, None if record.measurement is None else record.measurement.cache.value, row_side(record)
        ): number
        for number, record in enumerate(content.records, 1)
    }


def _key(problem: Mapping[str, Any], cache: str | None, side: RowSide) -> str:
    return canonical_json([dict(problem), cache, side.device, side.kernel])


def _entry(name: str, row: CompareRow) -> dict[str, Any]:
    found = row.difference
    ends, seen = found.ratio_ci95, found.could_see
    return {
        "name": name,
        "ratio": rounded(found.ratio or 0),
        "low": None if ends is None else rounded(ends[0]),
        "high": None if ends is None else rounded(ends[1]),
        "speed": "worse" if row.worse else found.speed.value,
        "processes": f"{found.processes_before} and {found.processes_after}",
        "p": None if found.p_adjusted is None else rounded(found.p_adjusted, 2),
        "sees": "nothing" if seen is None else f"{percent_text(seen)} %",
        "why": found.why or "",
        "conditions": f"{row.cache or ''} cache, {row.threads or 0} threads, {row.after.device or ''}",
    }


def _chart(data: list[dict[str, Any]], height: int) -> dict[str, Any]:
    import altair as alt

    reach = [value for entry in data for name in ("ratio", "low", "high") if (value := entry[name]) is not None]
    low, high = min((*reach, 0.95)) / 1.02, max((*reach, 1.05)) * 1.02
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("ratio:Q", title="time after / time before", scale=scale, axis=alt.Axis(format="~g", tickCount=6))
    names = [entry["name"] for entry in data]
    base = alt.Chart(alt.NamedData(NAME)).encode(
        y=alt.Y(
            "name:N",
            title=None,
            sort=names,
            axis=alt.Axis(labelExpr="slice(datum.label, indexof(datum.label, '  ') + 2)"),
        )
    )
    present = [name for name in SPEEDS if any(entry["speed"] == name for entry in data)]
    color = alt.Color(
        "speed:N",
        scale=alt.Scale(domain=present, range=[SPEEDS[name] for name in present]),
        legend=alt.Legend(title=None, orient="top"),
    )
    told = {"problem": "problem", "ratio": "ratio", "low": "from", "high": "to", "speed": "verdict", "why": "why"}
    told |= {"processes": "processes", "p": "p(adj)", "sees": "could see", "conditions": "conditions", "again": "again"}
    band = (
        alt.Chart(alt.NamedData(BAND))
        .mark_rect(style="tolerance", aria=False)
        .encode(x=alt.X("from:Q", scale=scale, title="time after / time before"), x2="to:Q")
    )
    one = (
        alt.Chart(alt.NamedData(BAND))
        .mark_rule(style="one", aria=False)
        .encode(x=alt.datum(1, type="quantitative", scale=scale))
    )
    bar = base.mark_rule(strokeWidth=1.8).encode(
        x=alt.X("low:Q", scale=scale, title="time after / time before"), x2="high:Q", color=color
    )
    again = base.transform_lookup(lookup="row", from_=alt.LookupData(alt.NamedData(ROWS), "row", ["again", "problem"]))
    point = again.mark_point(filled=True, size=58, opacity=1).encode(
        x=x, color=color, tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in told.items()]
    )
    return spec_of(alt.layer(band, one, bar, point).properties(height=height, width="container"))
