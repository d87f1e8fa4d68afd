"""Records: exact JSON, complete, always finite, and readable back."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.report.finite import nulled, restored
from fmha_cli.report.parts import OUTPUTS, worst
from fmha_cli.report.record import Record
from tests.support.generators.report.random_records import records
from tests.support.generators.report.samples import EXECUTED, bare, check, kernel, record


def through_json(row: Record) -> Record:
    return Record.from_dict(json.loads(json.dumps(row.to_dict(), allow_nan=False)))


@settings(max_examples=50)
@given(records())
@pytest.mark.slow
@pytest.mark.ci
def test_round_trip(row: Record) -> None:
    back = through_json(row)
    assert back.to_dict() == row.to_dict()
    assert repr(back.comparisons) == repr(row.comparisons)  # NaN is not equal to itself
    assert back.notes == row.notes


@pytest.mark.parametrize("row", [record(), bare(), *(bare(verdict) for verdict in Verdict)])
def test_round_trip_gives_the_same_noun(row: Record) -> None:
    assert through_json(row) == row


def keys(tree: Any) -> list[list[str]]:
    if isinstance(tree, dict):
        return [list(tree), *(k for value in tree.values() for k in keys(value))]
    return [k for value in tree for k in keys(value)] if isinstance(tree, list) else []


def test_keys_are_sorted_and_never_missing() -> None:
    full, empty = record().to_dict(), bare().to_dict()
    assert all(names == sorted(names) for names in keys(full))
    assert list(full) == list(empty)
    assert empty["kernel"] is None
    assert empty["checks"] is None
    assert empty["measurement"] is None
    assert empty["stages"] == []


def test_contract_members() -> None:
    row = record().to_dict()
    assert row["schema"] == "fmha.record/3"
    assert set(row["kernel"]) == {"name", "digest", "family", "signature", "algorithm", "upstream_name"}
    assert row["kernel"]["digest"] == kernel().digest
    assert row["kernel"]["algorithm"] == {"padded": True, "tile": [64, 32]}
    assert row["stages"][0]["family"] == "fwd_splitkv"
    assert row["stages"][0]["time_ns"] == 1_000_003
    assert row["stages"][0]["build_ns"] == 1_250_000_000
    assert row["stages"][1]["artifact_sha256"] is None
    contract = ["samples_ns", "median_ns", "ci95_ns", "cache", "flops", "bytes", "tflops", "gbps", "peak_fraction"]
    assert set(contract) <= set(row["measurement"])
    contract = ["row_l2", "row_l2_budget", "max_abs", "max_abs_budget", "nonfinite", "rows", "fill"]
    assert set(contract) <= set(row["checks"]["o"])
    assert list(row["checks"]) == sorted(OUTPUTS)
    assert row["reasons"] == [{"hint": "--hdim 80", "id": "K012", "text": "hdim 72 is not supported"}]


def test_checks_is_the_worst_fill() -> None:
    fills = [
        Comparison(checks=(("o", check(1e-4, "normal")),)),
        Comparison(checks=(("o", check(9e-4, "ties")),)),
        Comparison(checks=(("o", check(2e-4, "large")),)),
    ]
    row = record(comparisons=tuple(fills)).to_dict()
    assert row["checks"]["o"]["fill"] == "ties"
    assert [f["o"]["fill"] for f in row["fills"]] == ["normal", "ties", "large"]
    fills.append(Comparison(checks=(("o", check(math.nan, "coded")),)))
    assert worst(fills) is fills[3]
    assert worst([]) is None


def test_non_finite_numbers_are_null_and_named() -> None:
    row = record(comparisons=(Comparison(checks=(("o", check(math.inf)),)),)).to_dict()
    assert row["checks"]["o"]["row_l2"] is None
    assert "fills.0.o.row_l2 is inf" in row["notes"]
    assert "a note" in row["notes"]


def test_a_note_that_only_looks_like_one_stays() -> None:
    tree = {"a": {"b": 1.0}, "l": [{"c": None}]}
    notes = ["a.b is nan", "a.x is inf", "l.7.c is nan", "l.0.c is -inf", "x is nan is nan"]
    back, left = restored(tree, notes)
    assert left == ["a.b is nan", "a.x is inf", "l.7.c is nan", "x is nan is nan"]
    assert nulled(back) == ({"a": {"b": 1.0}, "l": [{"c": None}]}, ["l.0.c is -inf"])


OLD = Path(__file__).with_name("record_1.json")
"""A row as the last version with ``fmha.record/1`` wrote it."""


def test_a_row_is_read_that_lacks_a_statistic_of_its_samples() -> None:
    """Each new statistic makes such rows of those that are kept already."""
    row = record().to_dict()
    for name in ("median_ns", "ci95_ns", "tflops", "gbps", "noise"):
        less = {**row, "measurement": {key: one for key, one in row["measurement"].items() if key != name}}
        assert Record.from_dict(less) == record(), name
    less = {**row, "measurement": {key: one for key, one in row["measurement"].items() if key != "stage_samples_ns"}}
    with pytest.raises(DecodeError, match="lacks stage_samples_ns"):
        Record.from_dict(less)


@pytest.mark.promise("A record says which run, machine and choice it comes from; older records are read.")
def test_a_row_of_the_first_version_is_read() -> None:
    old = json.loads(OLD.read_text("utf-8"))
    row = Record.from_dict(old).to_dict()
    assert row["schema"] == "fmha.record/3"
    assert {name: row[name] for name in ("run", "started", "host", "selected_by", "model")} == dict.fromkeys(
        ("run", "started", "host", "selected_by", "model")
    )
    assert row["fills"][0]["o"]["rows_total"] is None
    assert {name: row[name] for name in ("problem", "verdict", "kernel", "notes", "repro", "ab")} == {
        name: old[name] for name in ("problem", "verdict", "kernel", "notes", "repro", "ab")
    }
    with pytest.raises(DecodeError, match="lacks repro"):
        Record.from_dict({name: value for name, value in old.items() if name != "repro"})


def test_counts_without_sectors_are_read() -> None:
    new = record(executed=(replace(EXECUTED, global_sectors=7),)).to_dict()
    assert new["executed"][0]["global_sectors"] == 7
    old = copy.deepcopy(new)
    del old["executed"][0]["global_sectors"]
    (read,) = Record.from_dict(old).executed or ()
    assert read == EXECUTED


def test_a_row_of_the_second_version_is_read() -> None:
    new = record().to_dict()
    old = {name: value for name, value in new.items() if name not in ("processor", "settings")}
    old |= {"schema": "fmha.record/2", "measurement": dict(new["measurement"])}
    del old["measurement"]["ceiling"]
    old["measurement"]["notes"] = []  # what the ceiling said
    row = Record.from_dict(old).to_dict()
    assert (row["processor"], row["settings"], row["measurement"]["ceiling"]) == (None, None, None)
    assert row["measurement"]["median_ns"] == new["measurement"]["median_ns"]
    for lost in ("processor", "settings"):
        with pytest.raises(DecodeError, match=lost):
            Record.from_dict({name: value for name, value in new.items() if name != lost})


@pytest.mark.parametrize("later", ["peak_bytes", "lead", "phase", "layer_kind", "weight"])
def test_a_row_without_a_later_member_is_read(later: str) -> None:
    new = record().to_dict()
    row = Record.from_dict({name: value for name, value in new.items() if name != later}).to_dict()
    assert row == {**new, later: None}


@pytest.mark.parametrize(
    "damage",
    [
        {"schema": "fmha.record/4"},
        {"verdict": "FINE"},
        {"stages": [{}]},
        {"fills": [{}]},
        {"measurement": {}},
        {"unknown": 1},
        {"notes": None},
    ],
)
def test_what_is_no_row_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match="record"):
        Record.from_dict({**record().to_dict(), **damage})
