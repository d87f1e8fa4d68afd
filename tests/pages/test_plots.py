"""What each plot shows of its rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fmha_cli.bench.roofline import CacheState, PeakKind
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.plot import Plot
from fmha_cli.pages.plots import forest, history, regret, roofline, throughput, verdicts
from fmha_cli.pages.theme import HATCH
from tests.support.generators.page_contents import (
    BANDWIDTH,
    PEAKS,
    bare_content,
    compared_runs,
    comparison,
    failed,
    kernels,
    odd,
    sweep,
    timed,
)


def data(plot: Plot, name: str | None = None) -> list[Any]:
    return list(plot.data[name or plot.id])


def layers(plot: Plot, panel: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plot.panels[panel].spec["layer"]
    return found


def test_throughput_has_a_panel_for_each_head_dim_type_and_mask() -> None:
    plot = throughput.plot(bare_content(*sweep()))
    assert [panel.title for panel in plot.panels] == [
        "d64 fp32 causal",
        "d128 fp32 causal",
        "d64 bf16 causal",
        "d128 bf16 causal",
    ]
    assert {row["series"] for row in data(plot)} == {"cpu", "torch", "openvino"}
    assert {row["seqlen"] for row in data(plot)} == {256, 512, 1024, 2048, 4096}
    assert "Device cpu; cache hot; threads 2; peak measured; n 60" in plot.caption


def test_throughput_has_intervals_and_hollow_points_for_few_samples() -> None:
    many, few = timed(Problem.of(dtype="fp32")), timed(Problem.of(dtype="fp32", seqlen=64), processes=1, samples=5)
    plot = throughput.plot(bare_content(many, few))
    first, second = data(plot)
    assert first["low"] < first["rate"] < first["high"]
    assert (first["few"], second["few"], second["low"]) == (False, True, None)
    (point,) = (one for one in layers(plot) if one["mark"]["type"] == "point")
    assert point["encoding"]["fillOpacity"]["condition"] == {"test": "datum.few", "value": 0}


def test_the_fastest_backend_of_a_point_has_a_star() -> None:
    plot = throughput.plot(bare_content(*sweep()))
    assert {row["series"] for row in data(plot) if row["won"]} == {"cpu"}
    assert sum(row["won"] for row in data(plot)) == 20
    assert any(one["mark"].get("text") == "★" for one in layers(plot))


def test_many_series_share_the_colour_of_their_backend() -> None:
    plot = throughput.plot(bare_content(*kernels(count=14), timed(Problem.of(heads=4, hdim=64, dtype="fp32"), "torch")))
    assert {row["series"] for row in data(plot)} == {"cpu", "torch"} or all(
        ", demo" in row["series"] for row in data(plot)
    )
    assert len({row["line"] for row in data(plot)}) == 15


def test_only_good_rows_that_were_timed_are_points() -> None:
    plot = throughput.plot(bare_content(*odd(), timed(Problem.of(), verdict=Verdict.MISTRUSTED)))
    assert [row["row"] for row in data(plot)] == [1, 2]


def test_ceilings_are_those_of_the_floors() -> None:
    cold = timed(Problem.of(seqlen=2048, dtype="bf16"), cache=CacheState.COLD)
    plot = roofline.plot(bare_content(*sweep(), cold))
    ends = data(plot, "ceilings")
    tops = {row["said"].split()[0]: row["rate"] for row in ends if row["said"] and not row["memory"]}
    assert tops == pytest.approx(
        PEAKS | {"fp16": PEAKS["fp16"]} if "fp16" in tops else {k: PEAKS[k] for k in ("fp32", "bf16")}, rel=1e-3
    )
    for row in (row for row in ends if row["memory"]):
        assert row["rate"] / row["intensity"] == pytest.approx(BANDWIDTH, rel=1e-3)
    assert {row["kind"] for row in ends} == {"measured"}
    assert plot.notes == ()


def test_a_ceiling_of_the_data_sheet_is_dashed_and_an_unknown_one_is_told() -> None:
    row = timed(Problem.of(dtype="bf16"))
    assert row.measurement is not None
    assert row.measurement.floor is not None
    spec = replace(row, measurement=replace(row.measurement, floor=replace(row.measurement.floor, kind=PeakKind.SPEC)))
    plot = roofline.plot(bare_content(spec))
    assert {end["kind"] for end in data(plot, "ceilings")} == {"spec"}
    dashes = layers(plot)[0]["encoding"]["strokeDash"]["scale"]
    assert dict(zip(dashes["domain"], dashes["range"], strict=True)) == {"measured": [1, 0], "spec": [6, 4]}
    assert "memory" in plot.notes[0]
    bare = roofline.plot(bare_content(replace(row, measurement=replace(row.measurement, floor=None))))
    assert bare.notes == ("No ceilings: the rows know no peak of their device.",)


def test_regret_marks_what_auto_chose_and_what_is_unsure() -> None:
    unsure = timed(Problem.of(heads=4, seqlen=1024, hdim=64, dtype="fp32"), number=9, processes=1, samples=4)
    plot = regret.plot(bare_content(*kernels(), unsure))
    cells = data(plot)
    assert [cell["chosen"] for cell in cells] == [False, True, False, False, False, False]
    assert [cell["unsure"] for cell in cells] == [False, False, False, False, False, True]
    assert cells[0]["slower"] == 0
    assert 12 < cells[1]["slower"] < 18
    shown = layers(plot)
    assert [one["transform"][0]["filter"] for one in shown if one["mark"].get("fill") == HATCH] == ["datum.unsure"]
    assert [one["transform"][0]["filter"] for one in shown if one["mark"].get("style") == "frame"] == ["datum.chosen"]


def test_regret_of_backends_has_a_column_for_each_and_its_winner() -> None:
    cells = data(regret.plot(bare_content(*sweep((512,)))))
    assert {cell["column"] for cell in cells} == {"cpu", "torch", "openvino"}
    assert {cell["column"] for cell in cells if cell["won"]} == {"cpu"}


def test_history_is_in_the_order_of_the_runs_and_marks_a_change(whole: PageContent) -> None:
    plot = history.plot(whole)
    entries = data(plot)
    assert [entry["at"][:4] for entry in entries] == [f"{n:04d}" for n in range(14)]
    assert [n for n, entry in enumerate(entries) if entry["speed"]] == [8]
    assert entries[8]["speed"] == "slower"
    assert entries[1]["label"] == "n1"
    assert plot.chooser is not None
    assert next(iter(plot.chooser.options.values())).endswith("(changed)")


def test_the_forest_is_sorted_and_has_the_tolerance() -> None:
    before, after = compared_runs()
    content = PageContent(title="t", runs=[before, after], comparison=comparison(before, after))
    plot = forest.plot(content)
    ratios = [row["ratio"] for row in data(plot)]
    assert ratios == sorted(ratios, reverse=True)
    assert data(plot, "tolerance") == [{"from": pytest.approx(1 / 1.02, rel=1e-4), "to": 1.02}]
    speeds = {row["speed"] for row in data(plot)}
    assert speeds >= {"slower", "faster", "unsure"}
    assert all(content.records[row["row"] - 1].repro for row in data(plot))
    assert "8 rows" in plot.caption


def test_many_compared_rows_are_cut_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "MOST", 3)
    before, after = compared_runs()
    plot = forest.plot(PageContent(title="t", runs=[before, after], comparison=comparison(before, after)))
    assert plot.notes[0] == "The 3 rows farthest from 1 are drawn; the table below has all 7."
    assert [round(row["ratio"], 1) for row in data(plot)] in ([1.3, 1.2, 0.9], [1.3, 1.1, 0.9])
    assert min(abs(math.log(row["ratio"])) for row in data(plot)) > 0.08


def test_verdicts_are_counted_by_their_first_reason() -> None:
    rows = data(verdicts.plot(bare_content(*kernels(), *odd())))
    assert {(row["verdict"], row["rows"]) for row in rows} >= {
        ("PASSED", 7),
        ("UNSUPPORTED", 2),
        ("WRONG", 1),
        ("CRASHED", 1),
    }
    assert sum(row["rows"] for row in rows) == 11
    assert all(len(row["name"]) <= verdicts.LONGEST for row in rows)
    assert (
        data(verdicts.plot(bare_content(failed(Problem.of(), Verdict.TIMED_OUT))))[0]["reason"] == "no reason is stated"
    )
