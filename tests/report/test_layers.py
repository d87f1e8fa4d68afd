"""The sums of models: which rows belong together, which times count, and that a part is never taken for the whole."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fmha_cli.bench.roofline import CacheState
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.layer import LayerKind, LayerPhase
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.report import records_view, report_document
from fmha_cli.report.drawing import plain
from fmha_cli.report.layers import LAYER_COLUMNS, ModelSum, layer_of, model_sums, sum_lines
from fmha_cli.report.parts import KernelRow, RunRow, SelectedBy
from fmha_cli.report.record import Record
from tests.support.generators.report.samples import DIGEST, ENVIRONMENT, kernel, measurement, record

LOCAL, FAR = (LayerKind.LOCAL, 3, "window:15,0"), (LayerKind.GLOBAL, 2, "causal")
RUN = RunRow(id=DIGEST[:32], command="bench", started="2026-11-22T19:40:00Z")


def row(
    layer: tuple[LayerKind, int, str] = LOCAL, us: int = 10, verdict: Verdict = Verdict.PASSED, **changes: Any
) -> Record:
    """One row of ``bench`` for layers that take ``us`` microseconds each; without a time if that is 0."""
    kind, weight, mask = layer
    flags = {"heads": 4, "seqlen": 64, "hdim": 16, "mask": mask} | changes.pop("flags", {})
    cache = changes.pop("cache", CacheState.HOT)
    timed = replace(measurement(), launches=((us * 1000,),) * 8, cache=cache) if us else None
    own = {
        "problem": Problem.of(**flags).to_dict(),
        "measurement": timed,
        "run": RUN,
        "model": "m",
        "phase": LayerPhase.PREFILL,
        "layer_kind": kind,
        "weight": changes.pop("weight", weight),
        "selected_by": SelectedBy.DEFAULT,
    }
    return record(verdict, **{**own, "default_choice": None, **changes})


def sums(*rows: Record) -> list[tuple[int, int, int, bool]]:
    return [(one.time_ns // 1000, one.timed, one.total, one.complete) for one in model_sums(rows)]


@pytest.mark.promise("`--model` gives a row for each kind of layer, and the sum counts every layer or says it cannot.")
def test_a_sum_is_each_median_times_the_number_of_such_layers() -> None:
    (found,) = model_sums([row(), row(FAR, 100)])
    assert (found.time_ns, found.timed, found.total, found.complete) == (230_000, 5, 5, True)
    assert [(one.kind, one.weight, one.row, one.time_ns) for one in found.layers] == [
        ("local", 3, 1, 10_000),
        ("global", 2, 2, 100_000),
    ]
    (line,) = sum_lines([found])
    assert line == "  m prefill b1 s64 hot: 230 us in 5 layers (3 local 10.0 us each, 2 global 100 us each)"


@pytest.mark.promise("`--model` gives a row for each kind of layer, and the sum counts every layer or says it cannot.")
@pytest.mark.parametrize("verdict", [v for v in Verdict if v.exit_code])
def test_a_row_that_is_not_good_has_no_time_that_counts(verdict: Verdict) -> None:
    (found,) = model_sums([row(), row(FAR, 100, verdict)])
    assert (found.time_ns, found.timed, found.complete) == (30_000, 3, False)
    (line,) = sum_lines([found])
    assert line.endswith(
        f"incomplete: 30.0 us in 3 of 5 layers (3 local 10.0 us each); no time of 2 global ({verdict})"
    )


def test_a_row_without_a_time_counts_as_missing() -> None:
    assert sums(row(), row(FAR, 0)) == [(30, 3, 5, False)]
    (found,) = model_sums([row(us=0, verdict=Verdict.NOT_RUN), row(FAR, 0)])
    (line,) = sum_lines([found])
    assert line == "  m prefill b1 s64: incomplete: no time of 3 local (NOT_RUN), 2 global (PASSED)"


@pytest.mark.parametrize(
    "apart",
    [
        {"model": "other"},
        {"phase": LayerPhase.DECODE},
        {"flags": {"seqlen": 128}},
        {"flags": {"batch": 2}},
        {"flags": {"dtype": "bf16"}},
        {"flags": {"heads": 8}},
    ],
)
def test_points_are_summed_apart(apart: dict[str, Any]) -> None:
    assert sums(row(), row(FAR), row(**apart), row(FAR, 20, **apart)) == [(50, 5, 5, True), (70, 5, 5, True)]


def test_kinds_of_layers_that_differ_in_shape_are_summed_together() -> None:
    assert sums(row(), row(FAR, flags={"hdim": 32, "kv_heads": 1, "scale": 0.5})) == [(50, 5, 5, True)]


def test_each_state_of_the_caches_has_its_sum() -> None:
    cold = {"cache": CacheState.COLD}
    assert sums(row(), row(us=20, **cold), row(FAR), row(FAR, 20, **cold)) == [(50, 5, 5, True), (100, 5, 5, True)]
    refused = row(FAR, 0, Verdict.UNSUPPORTED, selected_by=None)  # one row for both states
    assert sums(row(), row(us=20, **cold), refused) == [(30, 3, 5, False), (60, 3, 5, False)]


def test_each_compared_backend_has_its_sum() -> None:
    one, two = ({"backend": name, "selected_by": SelectedBy.BACKEND} for name in ("one", "two"))
    lost = {"backend": "two", "selected_by": None}
    found = model_sums([row(**one), row(us=20, **two), row(FAR, **one), row(FAR, 0, Verdict.UNSUPPORTED, **lost)])
    assert [(s.backend, s.time_ns, s.complete) for s in found] == [("one", 50_000, True), ("two", 60_000, False)]
    assert "m prefill b1 s64 two hot: incomplete: " in sum_lines(found)[1]


def test_backends_that_auto_chose_are_summed_together() -> None:
    (found,) = model_sums([row(backend="one"), row(FAR, backend="two")])
    assert (found.backend, found.complete) == (None, True)


def test_of_all_kernels_the_default_counts() -> None:
    every = {"selected_by": SelectedBy.ALL_KERNELS}
    other = {**every, "default_choice": False}
    chosen = {**every, "default_choice": True}
    assert sums(row(us=5, **other), row(**chosen), row(FAR, **chosen), row(FAR, 5, **other)) == [(50, 5, 5, True)]


def test_each_side_of_a_pair_has_its_sum() -> None:
    pair = [
        {"selected_by": SelectedBy.PAIR, "kernel": replace(KernelRow.of(kernel(), None), digest=digit * 64)}
        for digit in "ab"
    ]
    rows = [row(layer, us, **side) for layer in (LOCAL, FAR) for us, side in zip((10, 20), pair, strict=True)]
    assert sums(*rows) == [(50, 5, 5, True), (100, 5, 5, True)]


def test_a_point_that_is_asked_for_twice_is_summed_twice() -> None:
    assert sums(row(), row(FAR), row(us=20), row(FAR, 20)) == [(50, 5, 5, True), (100, 5, 5, True)]


@pytest.mark.promise(
    "`--workload` gives a row for each distinct call, and the sum counts every call or says it cannot."
)
def test_a_workload_has_one_sum_over_all_problems_and_counts_what_has_no_row() -> None:
    calls = {"phase": None, "layer_kind": None, "calls": 9}
    rows = [row(us=10, weight=3, **calls), row(FAR, 100, weight=2, flags={"seqlen": 32, "batch": 2}, **calls)]
    (found,) = model_sums(rows)
    assert (found.time_ns, found.timed, found.total, found.complete) == (230_000, 5, 9, False)
    assert found.text("").endswith("incomplete: 230 us in 5 of 9 calls; no time of 4 without a row")
    (whole,) = model_sums([replace(one, calls=5) for one in rows])
    assert (whole.complete, whole.text("")) == (True, "m hot: 230 us in 5 calls")
    (bad,) = model_sums([rows[0], replace(rows[1], verdict=Verdict.WRONG)])
    assert bad.text("").endswith("30.0 us in 3 of 9 calls; no time of 2 (WRONG), 4 without a row")
    assert from_json(ModelSum, to_json(bad)) == bad


def test_rows_without_a_model_or_a_bench_have_no_sum() -> None:
    assert model_sums([row(model=None, phase=None, layer_kind=None, weight=None)]) == []
    assert model_sums([row(run=replace(RUN, command="run")), row(run=None)]) == []
    assert [column.text(SimpleNamespace(layer=layer_of(row(weight=None)))) for column in LAYER_COLUMNS] == [""] * 4
    assert [column.text(SimpleNamespace(layer=layer_of(row()))) for column in LAYER_COLUMNS] == [
        "m",
        "prefill",
        "3 local",
        "",
    ]
    workload = layer_of(row(phase=None, layer_kind=None, calls=9))
    assert [column.text(SimpleNamespace(layer=workload)) for column in LAYER_COLUMNS] == ["m", "", "", "3"]


def test_what_all_sums_share_is_left_out_but_for_the_sizes() -> None:
    found = model_sums([row(), row(flags={"dtype": "bf16"})])
    assert [line.split(":")[0].split() for line in sum_lines(found)] == [
        ["m", "prefill", "b1", "s64", "fp16", "hot"],
        ["m", "prefill", "b1", "s64", "bf16", "hot"],
    ]


def test_sums_are_read_back() -> None:
    (found,) = model_sums([row(), row(FAR, 0)])
    assert from_json(ModelSum, to_json(found)) == found


def test_rows_of_the_same_layers_say_their_cache_mode() -> None:
    """A column of the table once went by its number, and the wrong one was emptied."""
    document = report_document([row(us=10), row(us=20)], ENVIRONMENT)
    assert "hot cache" in " ".join(plain(records_view(document), 120).split())
