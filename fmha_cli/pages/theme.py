"""The two configurations of Vega-Lite, for light and dark pages. Charts name no colours of text and lines, but styles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HATCH = "url(#fmha-hatch)"
"""The fill of cells that are UNSURE; the page and every SVG file define the pattern."""

HATCH_PATTERN = (
    '<pattern id="fmha-hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="2" height="7" fill="#808890" fill-opacity="0.75"/></pattern>'
)

SPEEDS: Mapping[str, str] = {
    "worse": "#b3261e",
    "slower": "#d55e00",
    "faster": "#009e73",
    "same": "#3f8fd2",
    "unsure": "#8a929b",
}
"""Colours of verdicts of speed, for both pages."""

_LIGHT_SERIES = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#8c6d00",
    "#56b4e9",
    "#7f3fbf",
    "#555b63",
    "#a6611a",
    "#00868b",
)
_DARK_SERIES = (
    "#56b4e9",
    "#ff8c42",
    "#2fc99b",
    "#e29bc3",
    "#e6c229",
    "#9ad0f5",
    "#b692f6",
    "#b8bfc7",
    "#d9a066",
    "#4fd0d6",
)
"""After M. Okabe and K. Ito, "Color Universal Design" (2008): distinguishable with every kind of colour vision."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def _config(text: str, faint: str, grid: str, frame: str, heat: Sequence[str], series: Sequence[str]) -> dict[str, Any]:
    axis = {"labelColor": text, "titleColor": text, "gridColor": grid, "domainColor": faint, "tickColor": faint}
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": grid},
        "axis": {**axis, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 240},
        "legend": {"labelColor": text, "titleColor": text, "labelFontSize": 11, "labelLimit": 260, "titleFontSize": 11}
        | {
            "symbolBaseFillColor": text,
            "symbolBaseStrokeColor": text,
            "layout": {"top": {"direction": "vertical", "anchor": "start"}},
        },
        "title": {"color": text, "fontSize": 12, "anchor": "start", "fontWeight": "normal"},
        "range": {"category": list(series), "ramp": list(heat), "heatmap": list(heat)},
        "style": {
            "ceiling": {"color": text, "stroke": text, "strokeWidth": 1.3},
            "said": {"color": text, "fill": text, "fontSize": 11},
            "mark": {"color": text, "fill": text, "fontSize": 13},
            "frame": {"color": frame, "stroke": frame},
            "tolerance": {"color": faint, "fill": faint, "fillOpacity": 0.22},
            "one": {"color": faint, "stroke": faint},
            "middle": {"color": text, "stroke": text, "strokeWidth": 1.6},
        },
    }


LIGHT = _config("#1d2329", "#848d97", "#e4e8ec", "#0057d9", ("#f7f4ee", "#f8d9ab", "#f0ac63", "#dc7a33"), _LIGHT_SERIES)
DARK = _config("#e3e7eb", "#7d8791", "#333b44", "#6cb2ff", ("#242a30", "#4d3a22", "#7d4f22", "#a8621f"), _DARK_SERIES)
PAPER = {**LIGHT, "background": "white"}
"""For SVG files."""
