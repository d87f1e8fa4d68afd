"""Verdicts by reason: how many rows ended how, and why."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import Panel, Plot, spec_of
from fmha_cli.report.record import Record

ID, TITLE = "verdicts", "Verdicts by reason"
NAME = "verdicts"
_GOOD, _QUIET, _BAD = "#009e73", "#8a929b", "#d55e00"
MOST = 60
LONGEST = 48
LEAST = 520
"""Pixels that labels and bars need."""


def plot(content: PageContent) -> Plot:
    """The plot of all rows."""
    if not content.records:
        return Plot(id=ID, title=TITLE, caption="", missing="There is no row.")
    why = [(record.verdict, _reason(record)) for record in content.records]
    counts, first = Counter(why), {key: number for number, key in reversed(list(enumerate(why, 1)))}
    order = sorted(counts.items(), key=lambda item: (list(Verdict).index(item[0][0]), -item[1]))
    shown = order[:MOST]
    data = [
        {
            "name": _label(verdict, reason),
            "verdict": verdict.value,
            "reason": reason,
            "kind": _kind(verdict),
            "rows": rows,
        }
        | {"row": first[verdict, reason]}
        for (verdict, reason), rows in shown
    ]
    height = 30 + 24 * len(data)
    notes = (f"{len(order) - len(shown)} further reasons are not drawn.",) if len(order) > len(shown) else ()
    return Plot(
        id=ID,
        title=TITLE,
        caption=f"{len(content.records)} rows. A row counts once, under its first reason.",
        panels=(Panel("", _chart(data, height), height, LEAST),),
        data={NAME: data},
        notes=notes,
    )


def _reason(record: Record) -> str:
    if record.reasons:
        return f"{record.reasons[0].id} {record.reasons[0].text}"
    return "" if record.verdict.exit_code is ExitCode.OK else "no reason is stated"


def _label(verdict: Verdict, reason: str) -> str:
    text = f"{verdict.value} {reason}".strip()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _kind(verdict: Verdict) -> str:
    return "nothing proved" if verdict.proves_nothing else "good" if verdict.good else "bad"


def _chart(data: list[dict[str, Any]], height: int) -> dict[str, Any]:
    import altair as alt

    names = list(dict.fromkeys(entry["name"] for entry in data))
    base = alt.Chart(alt.NamedData(NAME), height=height, width="container").encode(
        y=alt.Y("name:N", title=None, sort=names, axis=alt.Axis(labelLimit=300)),
        x=alt.X("sum(rows):Q", title="rows", axis=alt.Axis(tickMinStep=1, format="d")),
    )
    told = [alt.Tooltip(f"{name}:N") for name in ("verdict", "reason", "rows")]
    bar = base.mark_bar(height=14).encode(
        color=alt.Color(
            "kind:N",
            legend=None,
            scale=alt.Scale(domain=["good", "nothing proved", "bad"], range=[_GOOD, _QUIET, _BAD]),
        ),
        detail=["reason:N", "row:N"],
        tooltip=told,
    )
    count = base.mark_text(style="said", align="left", dx=4, aria=False).encode(text="sum(rows):Q")
    return spec_of(alt.layer(bar, count))
