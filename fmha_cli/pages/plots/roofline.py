"""Roofline: FLOP/s against FLOP/byte below the ceilings of the machine, one panel for each device.

S. Williams et al., "Roofline", CACM 52(4), 2009. The rows' floors were computed with these ceilings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fmha_cli.bench.roofline import CacheState, PeakKind
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.quantities import byte_rate, flop_rate
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import Panel, Plot, looked_up, spec_of, told
from fmha_cli.pages.rows import TimedRow, rounded, shared_words, timed

ID, TITLE = "roofline", "Roofline"
POINTS, CEILINGS = "roofline", "ceilings"
_PLAIN = {
    "batch",
    "heads",
    "kv_heads",
    "seqlen_q",
    "seqlen_k",
    "hdim",
    "hdim_v",
    "dtype",
    "mask",
    "mode",
    "layout",
    "direction",
    "scale",
    "lse",
}
"""The members of a problem whose must-read bytes are those of Q, K and V."""


def plot(content: PageContent) -> Plot:
    """The plot of all rows that were timed."""
    rows = timed(content.records, content.run_of)
    if not rows:
        return Plot(id=ID, title=TITLE, caption="", missing="No row was timed, so there is nothing below the roof.")
    devices = list(dict.fromkeys(row.record.device or "" for row in rows))
    points: list[dict[str, Any]] = [
        {
            "row": row.row,
            "panel": devices.index(row.record.device or ""),
            "backend": row.backend,
            "dtype": str(row.record.problem["dtype"]),
            "intensity": rounded(row.measured.flops / max(1, row.measured.bytes)),
            "rate": rounded(row.rate),
        }
        for row in rows
    ]
    ceilings: list[dict[str, Any]] = []
    for number, device in enumerate(devices):
        here = [row for row in rows if (row.record.device or "") == device]
        ceilings += _ceilings(here, number, [p["intensity"] for p in points if p["panel"] == number])
    notes = []
    if not ceilings:
        notes.append("No ceilings: the rows know no peak of their device.")
    elif not any(one["memory"] for one in ceilings):
        notes.append("No memory ceiling: no row with cold caches tells it (--cache cold).")
    return Plot(
        id=ID,
        title=TITLE,
        caption="Ceilings: solid measured on the machine, dashed from the data sheet. FLOP/byte counts every tensor once, and the "
        "memory ceiling reads alone; so a point may stand above it where writes stay in the cache. "
        f"{shared_words([row.record for row in rows])}.",
        panels=tuple(
            Panel(device, _chart(number, [p for p in points if p["panel"] == number], ceilings), 320)
            for number, device in enumerate(devices)
        ),
        data={POINTS: points, CEILINGS: ceilings},
        notes=tuple(notes),
    )


def _ceilings(rows: Sequence[TimedRow], panel: int, reach: Sequence[float]) -> list[dict[str, Any]]:
    """Two ends of each ceiling: of every type's best rate, and of the memory."""
    left, right = min(reach) / 2, max(reach) * 2
    compute: dict[tuple[str, PeakKind], float] = {}
    memory: dict[PeakKind, float] = {}
    for row in rows:
        floor, problem = row.measured.floor, row.record.problem
        if floor is None:
            continue
        if floor.compute_ns and not row.measured.dense:
            key = (str(problem["dtype"]).partition(":")[0], floor.kind)
            compute[key] = max(compute.get(key, 0.0), row.measured.flops / floor.compute_ns * 1e9)
        if floor.memory_ns and row.measured.cache is CacheState.COLD and (read := _read_bytes(row)):
            memory[floor.kind] = max(memory.get(floor.kind, 0.0), read / floor.memory_ns * 1e9)
    out = []
    for place, ((dtype, kind), rate) in enumerate(sorted(compute.items())):
        bend = max((rate / bandwidth for bandwidth in memory.values()), default=left)
        ends = [(min(max(left, bend), right), rate), (right, rate)]
        out += _ends(panel, f"c{place}", f"{dtype} {kind.value} {flop_rate(rate)}", kind, ends, memory=False)
    top = max(compute.values(), default=0.0)
    for place, (kind, bandwidth) in enumerate(sorted(memory.items())):
        bend = min(right, top / bandwidth) if top else right
        ends = [(min(left, bend / 2), min(left, bend / 2) * bandwidth), (bend, bend * bandwidth)]
        out += _ends(panel, f"m{place}", f"memory {kind.value} {byte_rate(bandwidth)}", kind, ends, memory=True)
    return out


def _ends(
    panel: int, line: str, name: str, kind: PeakKind, ends: Sequence[tuple[float, float]], *, memory: bool
) -> list[dict[str, Any]]:
    return [
        {
            "panel": panel,
            "line": line,
            "kind": kind.value,
            "memory": memory,
            "intensity": rounded(x),
            "rate": rounded(y),
            "said": name if last != memory else "",
        }
        for last, (x, y) in zip((False, True), ends, strict=True)
    ]


def _read_bytes(row: TimedRow) -> float:
    """Bytes of Q, K and V of a plain problem, every row of which sees a key and every key is seen; 0 for others."""
    problem = row.record.problem
    if not problem.keys() <= _PLAIN or problem["mode"] != "batch" or problem["direction"] != "fwd":
        return 0
    if problem["mask"] not in ("none", "causal") or problem["seqlen_q"] > problem["seqlen_k"]:
        return 0
    queries = problem["heads"] * problem["seqlen_q"] * problem["hdim"]
    keys = problem["kv_heads"] * problem["seqlen_k"] * (problem["hdim"] + problem["hdim_v"])
    bits = DType(str(problem["dtype"]).partition(":")[0]).bits
    return float(problem["batch"] * (queries + keys) * bits / 8)


def _chart(number: int, points: Sequence[dict[str, Any]], ceilings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    import altair as alt

    here = [one for one in ceilings if one["panel"] == number]
    rates = [one["rate"] for one in (*points, *here)]
    reach = [one["intensity"] for one in (*points, *here)]
    x = alt.X(
        "intensity:Q",
        title="FLOP/byte",
        scale=alt.Scale(type="log", domain=[min(reach) / 1.2, max(reach) * 1.2], nice=False),
        axis=alt.Axis(format="~g", values=_ticks(min(reach) / 1.2, max(reach) * 1.2)),
    )
    y = alt.Y(
        "rate:Q",
        title="FLOP/s",
        scale=alt.Scale(type="log", domain=[min(rates) / 1.6, max(rates) * 1.9], nice=False),
        axis=alt.Axis(format="~s", values=_ticks(min(rates) / 1.6, max(rates) * 1.9)),
    )
    chosen = alt.FieldEqualPredicate(field="panel", equal=number)
    dash = alt.StrokeDash("kind:N", legend=None, scale=alt.Scale(domain=["measured", "spec"], range=[[1, 0], [6, 4]]))
    layers: list[Any] = []
    if here:
        base = alt.Chart(alt.NamedData(CEILINGS)).transform_filter(chosen).encode(x=x, y=y)
        layers.append(base.mark_line(style="ceiling", aria=False).encode(detail="line:N", strokeDash=dash))
        said = base.transform_filter("datum.said != ''").encode(text="said:N")
        layers.append(said.transform_filter("!datum.memory").mark_text(style="said", align="right", dy=-7, aria=False))
        layers.append(
            said.transform_filter("datum.memory").mark_text(style="said", align="left", dx=10, dy=14, aria=False)
        )
    backends, dtypes = (list(dict.fromkeys(p[name] for p in points)) for name in ("backend", "dtype"))
    layers.append(
        looked_up(alt.Chart(alt.NamedData(POINTS)).transform_filter(chosen))
        .mark_point(size=54, filled=True, opacity=0.85)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "backend:N", legend=alt.Legend(title=None, orient="top", columns=3), scale=alt.Scale(domain=backends)
            ),
            shape=alt.Shape(
                "dtype:N", legend=alt.Legend(title=None, orient="top", columns=3) if len(dtypes) > 1 else None
            ),
            tooltip=told(rate="FLOP/s", intensity="FLOP/byte"),
        )
    )
    return spec_of(alt.layer(*layers).properties(height=320, width="container"))


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten in a range; the powers alone in a range of many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [tick for decade in decades for digit in digits if low <= (tick := digit * 10.0**decade) <= high]
