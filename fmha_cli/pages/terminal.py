"""``fmha bench --plot``: throughput against the swept axis, as text for a terminal. plotext (extra ``report``) draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.pages.drawing import HELP
from fmha_cli.pages.rows import TimedRow, seqlen_of, timed
from fmha_cli.pages.series import AXES, rate_unit, series_of
from fmha_cli.report.escaping import escaped
from fmha_cli.report.fitting import folded
from fmha_cli.report.record import Record

LETTERS = "abcdefghijkl"
"""The mark of each series; further ones are named, not drawn."""
COLORS = (
    "blue+",
    "orange+",
    "green+",
    "magenta+",
    "cyan+",
    "red+",
    "gold",
    "gray+",
    "blue",
    "green",
    "magenta",
    "cyan",
)
HEIGHT = 20
NARROWEST, WIDEST = 40, 120


def check_plotext(where: str) -> None:
    """Refuse a plot before any work if the library is missing.

    Raises:
        EnvironmentProblem: X052.
    """
    try:
        import plotext  # noqa: F401 - is it here?
    except ImportError as fault:
        what = "plots in the terminal need plotext"
        raise EnvironmentProblem(what, code="X052", where=where, why=str(fault), help=HELP) from fault


def terminal_plot(records: Sequence[Record], width: int, *, color: bool = False) -> str:
    """The plot, or one line that says why there is none.

    Args:
        width: columns, of which 40 to 120 are used.
    """
    rows = timed(records, [""] * len(records))
    if not rows:
        return "no plot: no row was timed"
    axis = next((name for name in AXES if len({_value(row, name) for row in rows}) > 1), None)
    if axis is None:
        return f"no plot: nothing is swept; several of --{', --'.join(AXES)} give one"
    unit, scale = rate_unit(rows)
    named = sorted(zip(series_of(rows, (axis,)), rows, strict=True), key=lambda pair: pair[0])
    series = {name: [row for _, row in found] for name, found in groupby(named, key=lambda pair: pair[0])}
    shown = dict(list(series.items())[: len(LETTERS)])
    title = f"{unit} against {axis}, log2; the bars are 95 % intervals of the median"
    lines = [f"  {letter} {escaped(name)}" for letter, name in zip(LETTERS, shown, strict=False)]
    left = len(series) - len(shown)
    lines += [f"  {left} further series are not drawn"] if left else []
    below = [part for line in lines for part in folded(line, width, hang=4)]
    return "\n".join([*folded(title, width), _drawn(shown, axis, scale, width, color), *below])


def _value(row: TimedRow, axis: str) -> int:
    return seqlen_of(row.record) if axis == "seqlen" else int(row.record.problem[AXES[axis][0]])


def _drawn(series: dict[str, list[TimedRow]], axis: str, scale: float, width: int, color: bool) -> str:
    """The drawing: lines of points, bars over them, and the letters on top."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(max(NARROWEST, min(width, WIDEST)), HEIGHT)
    points = {
        name: sorted(((math.log2(_value(row, axis)), row) for row in rows), key=lambda pair: pair[0])
        for name, rows in series.items()
    }
    colors = dict(zip(series, COLORS, strict=False))
    for name, found in points.items():
        xs, ys = [x for x, _ in found], [row.rate / scale for _, row in found]
        if len(xs) > 1:
            plotext.plot(xs, ys, marker="·", color=colors[name])
    for name, found in points.items():
        for x, row in found:
            if ends := row.interval_ns:
                rates = [row.measured.flops / max(1, ns) * 1e9 / scale for ns in ends]
                plotext.plot([x, x], rates, marker="│", color=colors[name])
    for letter, (name, found) in zip(LETTERS, points.items(), strict=False):
        xs, ys = [x for x, _ in found], [row.rate / scale for _, row in found]
        plotext.scatter(xs, ys, marker=letter, color=colors[name])
    ticks = sorted({_value(row, axis) for rows in series.values() for row in rows})
    plotext.xticks([math.log2(tick) for tick in ticks], [_size(tick) for tick in ticks])
    plotext.ylim(0, None)
    text = str(plotext.build())
    lines = (text if color else str(plotext.uncolorize(text))).splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _size(value: int) -> str:
    return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else str(value)
