"""Regret heat map: how much slower each kernel or backend is than the best one of its problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fmha_cli.bench.compare import Regret
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import Panel, Plot, looked_up, spec_of, told
from fmha_cli.pages.rows import TimedRow, percent_text, rounded, shared_words, timed, varying
from fmha_cli.pages.theme import HATCH
from fmha_cli.report.lines import problem_text

ID, TITLE = "regret", "Regret"
NAME = "regret"
MOST_PROBLEMS = 60
MOST_COLUMNS = 40


def plot(content: PageContent) -> Plot:
    """The plot of all problems that several kernels or backends were timed on."""
    groups = [group for group in _groups(timed(content.records, content.run_of)) if len(group) > 1]
    if not groups:
        words = "No problem was timed with several kernels or backends (--all-kernels, --backend all), so there is no regret."
        return Plot(id=ID, title=TITLE, caption="", missing=words)
    rows = [row for group in groups for row in group]
    names, shared = varying([_name(group[0], groups) for group in groups])
    several = any(
        len({row.kernel for row in group if row.backend == one.backend}) > 1 for group in groups for one in group
    )
    columns = list(dict.fromkeys(_column(row, several) for row in rows))
    shown = groups[:MOST_PROBLEMS]
    data = [
        cell
        for name, group in zip(names, shown, strict=False)
        for cell in _cells(name, group, several)
        if columns.index(cell["column"]) < MOST_COLUMNS
    ]
    notes = ["A star is the fastest of several backends."] if any(cell["won"] for cell in data) else []
    cut = len(groups) - len(shown), max(0, len(columns) - MOST_COLUMNS)
    if any(cut):
        notes.append(f"{cut[0]} further problems and {cut[1]} further columns are not drawn; --filter chooses rows.")
    height = 26 * len(shown)
    least = 150 + 50 * min(len(columns), MOST_COLUMNS)
    return Plot(
        id=ID,
        title=TITLE,
        caption="Number: per cent slower than the best of its row. Blue frame: what auto chooses. Hatched: UNSURE, the 95 % interval of "
        f"the difference holds 0, or there are too few samples for one. {'All rows: ' + shared + '. ' if shared else ''}"
        f"{shared_words([row.record for row in rows])}.",
        panels=(Panel("", _chart(data, columns[:MOST_COLUMNS], names[: len(shown)], height), height, least),),
        data={NAME: data},
        notes=tuple(notes),
    )


def _groups(rows: Sequence[TimedRow]) -> list[list[TimedRow]]:
    """The rows of each problem under equal conditions."""
    found: dict[tuple[object, ...], list[TimedRow]] = {}
    for row in rows:
        problem = repr(sorted(row.record.problem.items(), key=str))
        key = problem, row.record.device, row.measured.cache, row.measured.threads, row.run
        found.setdefault(key, []).append(row)
    return list(found.values())


def _name(row: TimedRow, groups: Sequence[Sequence[TimedRow]]) -> str:
    """The problem of a row, with the conditions that are not those of all problems."""
    parts = [problem_text(row.record.problem)]
    firsts = [group[0] for group in groups]
    parts += [f"{row.measured.cache.value}_cache"] if len({one.measured.cache for one in firsts}) > 1 else []
    parts += [f"t{row.measured.threads}"] if len({one.measured.threads for one in firsts}) > 1 else []
    parts += [row.run.replace(" ", "_")] if len({one.run for one in firsts}) > 1 else []
    return " ".join(parts)


def _column(row: TimedRow, several: bool) -> str:
    return f"{row.backend} {row.kernel}" if several else row.backend


def _cells(name: str, group: Sequence[TimedRow], several: bool) -> list[dict[str, Any]]:
    best = min(group, key=lambda row: row.median_ns)
    out: dict[str, dict[str, Any]] = {}
    for row in group:
        slower = row.median_ns / max(1, best.median_ns) - 1
        out.setdefault(
            _column(row, several),
            {
                "row": row.row,
                "name": name,
                "column": _column(row, several),
                "slower": rounded(slower * 100, 4),
                "text": percent_text(slower),
                "unsure": not _is_sure(row, best),
                "chosen": bool(row.record.default_choice),
                "won": row.record.lead is not None,
            },
        )
    return list(out.values())


def _is_sure(row: TimedRow, best: TimedRow) -> bool:
    """Whether a row is surely slower than the best one of its problem; of the best itself, whether its time has an interval.

    Where the intervals of both medians do not touch, the bootstrap of their ratio need not be drawn.
    """
    own, other = row.interval_ns, best.interval_ns
    if own is None or other is None:
        return False
    if row is best or own[0] > other[1]:
        return True
    found = Regret.of(row.measured.samples_ns, [best.measured.samples_ns]).ci95
    return found is not None and found[0] > 0


def _chart(data: Sequence[dict[str, Any]], columns: Sequence[str], names: Sequence[str], height: int) -> dict[str, Any]:
    import altair as alt

    most = max(cell["slower"] for cell in data)
    color = alt.Color(
        "slower:Q",
        title="% slower",
        scale=alt.Scale(type="symlog", domain=[0, max(most, 1)]),
        legend=alt.Legend(orient="top", gradientLength=160, gradientThickness=10, values=[0, round(max(most, 1))]),
    )
    base = alt.Chart(alt.NamedData(NAME), height=height, width="container").encode(
        x=alt.X("column:N", title=None, sort=list(columns), axis=alt.Axis(orient="top", labelAngle=_angle(columns))),
        y=alt.Y("name:N", title=None, sort=list(names)),
    )
    cells = looked_up(base).mark_rect().encode(color=color, tooltip=told(text="% slower", column="kernel or backend"))
    hatched = base.transform_filter("datum.unsure").mark_rect(fill=HATCH, tooltip=None, aria=False)
    frame = base.transform_filter("datum.chosen").mark_rect(
        filled=False, style="frame", strokeWidth=2.6, tooltip=None, aria=False
    )
    text = (
        base.mark_text(style="said", tooltip=None, aria=False)
        .encode(text="shown:N")
        .transform_calculate(shown="datum.won ? datum.text + ' ★' : datum.text")
    )
    return spec_of(alt.layer(cells, hatched, frame, text))


def _angle(columns: Sequence[str]) -> int:
    return 0 if len(columns) <= 4 and max(map(len, columns)) <= 14 else -40
