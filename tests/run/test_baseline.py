"""Baselines: which rows correspond, and which rows and files do not count."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.roofline import CacheState
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import EmptySelection, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.parts import NO_ENVIRONMENT, KernelRow
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import USUAL, kernel_name, key_of
from fmha_cli.run.baseline import Baseline, PlannedKey, load_baseline
from tests.support.generators.report.samples import kernel as sample_kernel


def row(
    middle: int,
    seed: int,
    seqlen: int = 64,
    kernel: str | None = None,
    cache: CacheState = CacheState.HOT,
    verdict: Verdict = Verdict.PASSED,
    processes: int = 8,
) -> Record:
    problem = Problem.of(seqlen=seqlen)
    draw = random.Random(seed)
    times = tuple((int(draw.gauss(middle, middle * 0.002)),) for _ in range(30 * processes))
    return Record(
        problem=problem.to_dict(),
        repro="fmha bench",
        verdict=verdict,
        kernel=None if kernel is None else replace(KernelRow.of(sample_kernel()), name=kernel),
        measurement=Measurement(
            launches=times,
            flops=problem.flops(),
            bytes=problem.bytes(),
            cache=cache,
            process_of_sample=tuple(i // 30 for i in range(len(times))),
        ),
    )


def as_lines(rows: list[Record]) -> str:
    return "".join(json.dumps(record.to_dict()) + "\n" for record in rows)


def as_report(rows: list[Record]) -> str:
    return json.dumps(to_json(report_document(rows, NO_ENVIRONMENT)), indent=1)


def saved(path: Path, rows: list[Record], form: Callable[[list[Record]], str] = as_report) -> Baseline:
    path.write_text(form(rows), "utf-8")
    return load_baseline(path)


def planned(*rows: Record) -> list[PlannedKey]:
    return [(key_of(row, USUAL), kernel_name(row)) for row in rows]


@pytest.mark.parametrize("form", [as_lines, as_report])
def test_a_baseline_finds_a_regression(tmp_path: Path, form: Callable[[list[Record]], str]) -> None:
    base = saved(tmp_path / "old.json", [row(1_000_000, 1), row(5_000_000, 2, seqlen=128)], form)
    slower, same = base.ratio(row(1_200_000, 3)), base.ratio(row(1_002_000, 4))
    assert slower is not None
    assert slower.speed is Speed.SLOWER
    assert slower.against == "old.json"
    assert same is not None
    assert same.speed is Speed.SAME
    assert base.ratio(row(1, 1, seqlen=99)) is None
    assert base.ratio(row(1_000_000, 1, cache=CacheState.COLD)) is None
    assert base.ratio(replace(row(1, 1), measurement=None)) is None


def test_a_baseline_of_one_process_is_never_sure_and_says_how_to_record_a_better_one(tmp_path: Path) -> None:
    base = saved(tmp_path / "old.json", [row(1_000_000, 1, processes=1)])
    found = base.ratio(row(2_000_000, 2))
    assert found is not None
    assert (found.speed, found.why) == (Speed.UNSURE, "1 of 5 processes")
    assert found.ratio == pytest.approx(2, rel=0.01)
    (line,) = base.coverage(planned(row(9, 1)))
    assert "1 process a row" in line
    assert "--processes 8" in line
    assert saved(tmp_path / "new.json", [row(1_000_000, 1)]).coverage(planned(row(9, 1))) == ()


def test_records_of_single_processes_are_the_processes_of_their_row(tmp_path: Path) -> None:
    """Several runs in one file of lines: each record is one process."""
    base = saved(tmp_path / "old.jsonl", [row(1_000_000, seed, processes=1) for seed in range(8)], as_lines)
    assert base.coverage(planned(row(9, 1))) == ()
    found = base.ratio(row(1_200_000, 9))
    assert found is not None
    assert (found.other_processes, found.speed) == (8, Speed.SLOWER)


def test_many_rows_must_be_surer(tmp_path: Path) -> None:
    """With 5 processes a side, 1 row can be sure, and 7 rows can not."""
    old = [row(1_000_000, 1, processes=5), *(row(9, 1, seqlen=16 * n, processes=5) for n in range(1, 7) if n != 4)]
    base = saved(tmp_path / "old.json", [*old, row(9, 1, seqlen=512, processes=5)])
    new = [row(1_200_000, 2, processes=5), *(row(9, 1, seqlen=n, processes=5) for n in (16, 32, 48, 80, 96, 512))]
    alone, together = base.among(planned(new[0])).ratio(new[0]), base.among(planned(*new)).ratio(new[0])
    assert alone is not None
    assert together is not None
    assert (alone.speed, together.speed) == (Speed.SLOWER, Speed.UNSURE)
    assert any("with 6 or more" in line for line in base.coverage(planned(*new)))


def test_one_row_is_a_report(tmp_path: Path) -> None:
    base = saved(tmp_path / "row.json", [row(1_000_000, 1)], lambda rows: json.dumps(rows[0].to_dict(), indent=1))
    assert base.ratio(row(1_000_000, 2)) is not None


def test_several_kernels_correspond_by_name(tmp_path: Path) -> None:
    base = saved(tmp_path / "old.json", [row(1_000_000, 1, kernel="a"), row(2_000_000, 2, kernel="b")])
    assert base.ratio(row(3, 1, kernel="c")) is None
    found = base.ratio(row(2_000_000, 3, kernel="b"))
    assert found is not None
    assert found.speed is Speed.SAME


def test_rows_with_a_counterpart_are_counted(tmp_path: Path) -> None:
    base = saved(tmp_path / "old.json", [row(9, 1), row(9, 1, seqlen=128), row(9, 1, seqlen=256)])
    here = [row(9, 1), row(9, 1, seqlen=128), row(9, 1, seqlen=512)]
    assert base.coverage(planned(*here)) == ("old.json: 2 of 3 rows have a counterpart",)
    assert base.coverage(planned(*here[:2])) == ()
    assert base.coverage(()) == (), "nothing will be timed, which is another matter"


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (row(9, 1, seqlen=99), "its rows are of other problems"),
        (row(9, 1, cache=CacheState.COLD), "cache is cold here and hot there"),
        (replace(row(9, 1), device="cuda:0"), "device is cuda:0 here and None there"),
        (row(9, 1, kernel="c"), "its rows are of other kernels"),
    ],
)
def test_a_baseline_without_any_counterpart_is_an_empty_selection(tmp_path: Path, here: Record, why: str) -> None:
    base = saved(tmp_path / "old.json", [row(9, 1, kernel="a"), row(9, 1, kernel="b")])
    with pytest.raises(EmptySelection, match=r"old\.json") as caught:
        base.coverage(planned(here))
    assert caught.value.why is not None
    assert caught.value.why.endswith(why)


@pytest.mark.parametrize("verdict", [v for v in Verdict if v not in (Verdict.PASSED, Verdict.UNCHECKED)])
def test_a_row_with_a_bad_verdict_is_no_baseline(tmp_path: Path, verdict: Verdict) -> None:
    bad = row(1_000_000, 1, verdict=verdict)
    base = saved(tmp_path / "old.json", [bad, row(1_000_000, 1, seqlen=128)])
    assert base.ratio(row(1_000_000, 1)) is None
    assert base.coverage(planned(row(9, 1), row(9, 1, seqlen=128))) == (
        "old.json: 1 row with a bad verdict left out",
        "old.json: 1 of 2 rows has a counterpart",
    )
    with pytest.raises(UsageError, match="--baseline"):
        saved(tmp_path / "bad.json", [bad])
