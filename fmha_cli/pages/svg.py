"""Each plot as an SVG file, for papers: its panels side by side, on white."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from fmha_cli.pages.content import PageContent
from fmha_cli.pages.drawing import svg_of
from fmha_cli.pages.page import plots
from fmha_cli.pages.plot import ROWS, Plot
from fmha_cli.pages.rows import rows_of
from fmha_cli.pages.theme import HATCH_PATTERN, PAPER
from fmha_cli.report.escaping import cleaned
from fmha_cli.report.finite import nulled

ALONE, BESIDE, COLUMNS = 620, 330, 3
"""Widths of a panel that stands alone, and of one next to others, in pixels; and panels in one line."""


def svg_files(content: PageContent) -> Iterator[tuple[str, str]]:
    """``ID.svg`` and its text for every plot that has data; of plots with a choice, the first one."""
    rows = rows_of(content.records, content.run_of)
    for plot in plots(content):
        if plot.panels:
            found = svg_of(_spec(plot, rows), PAPER)
            yield (
                f"{plot.id}.svg",
                found.replace("<defs>", f"<defs>{HATCH_PATTERN}", 1)
                if "<defs>" in found
                else (found.replace(">", f"><defs>{HATCH_PATTERN}</defs>", 1)),
            )


def _spec(plot: Plot, rows: list[dict[str, Any]]) -> dict[str, Any]:
    panels = [_fixed(copy.deepcopy(panel.spec), BESIDE if len(plot.panels) > 1 else ALONE) for panel in plot.panels]
    for panel, spec in zip(plot.panels, panels, strict=True):
        spec |= {"title": panel.title} if panel.title else {}
    whole: dict[str, Any] = panels[0] if len(panels) == 1 else {"concat": panels, "columns": COLUMNS}
    data, _ = nulled({ROWS: cleaned(rows), **plot.data})
    return {**whole, "datasets": data}


def _fixed(spec: dict[str, Any], width: int) -> dict[str, Any]:
    """The chart with its own width in place of its container's."""
    for part in (spec, *spec.get("layer", ())):
        if part.get("width") == "container":
            part["width"] = width
    return spec
