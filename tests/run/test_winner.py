"""Of several backends: the winner with its margin, the memory of each row, threads that spin, and kernels that nobody should choose."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fmha_cli import api
from fmha_cli.bench.compare import TOLERANCE, Ratio, Speed
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.first_launch import SPINNING, FirstLaunch
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.report import records_view, report_document
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.report.record import Record
from fmha_cli.run.records import lead_of
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run
from tests.support.fakes.trio_backends import HUNGER
from tests.support.fixtures.trio import trio

__all__ = ["trio"]

PROBLEM = api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32")


def walked(backend: str, *problems: api.Problem, command: Command = Command.BENCH, **more: Any) -> list[Record]:
    request = Request(command=command, backend=backend, budget_s=0.02, peak="spec", **more)
    return list(Run(problems or (PROBLEM,), request, build_registry()).records())


def test_the_page_has_the_columns_the_words_and_the_limits() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "timing.md").read_text("utf-8")
    part = page.split("## Comparing kernels and backends")[1].split("\n## ")[0]
    for column, path in (("winner", "lead"), ("against", "ab"), ("memory", "peak_bytes")):
        assert f"| `{column}` | `{path}` |" in part
        assert path in Record.__dataclass_fields__
    members = {*Ratio.__dataclass_fields__, "speed"}
    assert members == {"against", "median_ns", "ratio", "ratio_ci95", "paired", "tolerance", "speed"}
    assert all(f"`{name}`" in part for name in (*members, *(speed.value for speed in Speed)))
    assert (TOLERANCE, SPINNING) == (0.02, 0.25)
    assert all(words in part for words in ("2 %", "a quarter of a core"))


def cells(records: list[Record], title: str) -> list[str]:
    table = records_view(report_document(records, NO_ENVIRONMENT))
    place = [column.header for column in table.columns].index(title)
    return [row[place] for row in table.rows]


@pytest.mark.promise("Of several backends the fastest good row is marked with its margin, or as UNSURE.")
@pytest.mark.usefixtures("trio")
def test_one_row_of_each_problem_wins_with_its_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_ONE", "slow")
    monkeypatch.setenv("TRIO_THREE", "slow")
    records = walked("one,two,three", PROBLEM, api.Problem.from_cli("-H 2 -s 8 -d 8 --dtype fp32"))
    assert [record.backend for record in records if record.lead] == ["two", "two"]
    first = records[1]
    assert first.lead is not None
    assert first.lead.speed is Speed.FASTER
    assert first.lead.paired
    assert first.lead.against.split(":")[0] in ("one", "three")
    shown = cells(records, "winner")
    assert [bool(cell) for cell in shown] == [False, True, False] * 2
    assert shown[1].endswith("x")
    assert float(shown[1].removesuffix("x")) > 1


@pytest.mark.promise("Of several backends the fastest good row is marked with its margin, or as UNSURE.")
@pytest.mark.usefixtures("trio")
@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    "word", ["wrong_value", *(pytest.param(w, marks=pytest.mark.slow) for w in ("late", "segfault"))]
)
def test_a_row_that_is_not_good_never_wins(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_ONE", word)
    monkeypatch.setenv("TRIO_TWO", "slow")
    monkeypatch.setenv("TRIO_THREE", "slow")
    records = walked("one,two,three")
    assert records[0].lead is None
    assert sum(record.lead is not None for record in records) == 1


@pytest.mark.usefixtures("trio")
def test_a_row_without_a_rival_has_no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_TWO", "disliked")
    records = walked("one,two")
    assert [record.verdict for record in records] == [Verdict.PASSED, Verdict.UNSUPPORTED]
    assert [record.lead for record in records] == [None, None]
    assert [reason.id for reason in records[1].reasons] == ["K998"]


def _row(samples: list[int] | None, verdict: Verdict = Verdict.PASSED, paired: bool | None = None) -> Any:
    measured = None if samples is None else SimpleNamespace(samples_ns=tuple(samples))
    return SimpleNamespace(
        measurement=measured, verdict=verdict, ab=None if paired is None else SimpleNamespace(paired=paired)
    )


ROWS: Any = [SimpleNamespace(name=name) for name in ("a", "b", "c")]
STEADY = [1000 + n % 3 for n in range(20)]
NOISY = [600, 1500] * 10


@pytest.mark.promise("Of several backends the fastest good row is marked with its margin, or as UNSURE.")
@pytest.mark.parametrize(
    ("other", "speed"),
    [
        ([1300 + n % 3 for n in range(20)], Speed.FASTER),
        ([1010 + n % 3 for n in range(20)], Speed.SAME),
        (NOISY, Speed.UNSURE),
        ([1300, 1301], Speed.UNSURE),
    ],
)
def test_the_margin_is_unsure_where_noise_decides(other: list[int], speed: Speed) -> None:
    found = lead_of(ROWS, [_row(None, Verdict.UNSUPPORTED), _row(other, paired=False), _row(STEADY)])
    assert found is not None
    place, ratio = found
    assert (place, ratio.against, ratio.speed, ratio.paired) == (2, "b", speed, False)


@pytest.mark.parametrize(("speed", "text"), [((1.0, 1.5), "UNSURE"), ((1.29, 1.31), "1.30x"), ((1.001, 1.003), "SAME")])
def test_the_table_marks_a_margin_that_is_not_sure(speed: tuple[float, float], text: str) -> None:
    mine = 1 / (sum(speed) / 2)
    lead = Ratio(against="b", median_ns=1, ratio=mine, ratio_ci95=(1 / speed[1], 1 / speed[0]), paired=True)
    problem = PROBLEM.to_dict()
    (cell,) = cells([Record(problem=problem, repro="", verdict=Verdict.PASSED, lead=lead)], "winner")
    assert text in cell


@pytest.mark.promise("The memory of a row is counted above the worker's level before its launch.")
@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_memory_is_counted_above_the_level_before_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_TWO", "hungry")
    large = api.Problem.from_cli("-H 2 -s 4096 --seqlen-k 64 -d 512 --dtype fp32")
    plain, hungry = walked("one,two", PROBLEM)
    (big,) = walked("one", large, command=Command.RUN)
    assert hungry.peak_bytes is not None
    assert 0.9 * HUNGER < hungry.peak_bytes < 2 * HUNGER
    assert plain.peak_bytes is not None
    assert plain.peak_bytes < HUNGER // 4
    assert cells([plain, hungry], "memory")[1].startswith(("95", "96"))
    assert big.peak_bytes is not None
    tensors = 2 * 2 * 4096 * 512 * 4
    assert big.peak_bytes < 8 * tensors  # the null kernel's own copies in numpy


@pytest.mark.promise("The memory of a row is counted above the worker's level before its launch.")
@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_threads_that_spin_after_a_launch_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_TWO", "spinner")
    plain, spins = walked("one,two")
    assert not any("cores busy" in note for note in plain.notes)
    seen = "from 5 to 10 ms after its first launch, its threads kept 2.0 cores busy"
    assert f"{seen}; a kernel that starts in that time is slower" in spins.notes


@pytest.mark.parametrize(("cores", "told"), [(0.0, False), (SPINNING - 0.01, False), (SPINNING, True), (2.0, True)])
def test_only_threads_that_spin_are_worth_a_line(cores: float, told: bool) -> None:
    assert bool(FirstLaunch(idle_cores=cores).lines()) is told


@pytest.mark.promise("A kernel that should not be chosen runs if it is named.")
@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_that_nobody_should_choose_runs_if_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_ONE", "disliked")
    (refused,) = walked("one", command=Command.RUN)
    assert refused.verdict is Verdict.UNSUPPORTED
    registry = build_registry()
    (kernel,) = registry.backend("one").kernels(registry.arch("null"))
    (named,) = walked("one", command=Command.RUN, kernel=kernel.name)
    assert named.verdict is Verdict.PASSED
    assert [reason.id for reason in named.reasons] == ["K998"]
    lse = api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp16")
    with pytest.raises(UnsupportedError, match="dtype"):
        walked("one", lse, command=Command.RUN, kernel=kernel.name)


@pytest.mark.slow
@pytest.mark.ci
def test_the_pages_of_an_arena_count_before_a_launch(trio: Path) -> None:
    """Without this the first launch would pay for every tensor."""
    (record,) = walked(
        "one", api.Problem.from_cli("-H 1 -s 1 --seqlen-k 16384 -d 512 --dtype fp32"), command=Command.RUN
    )
    tensors = 2 * 16384 * 512 * 4
    assert record.peak_bytes is not None
    assert record.peak_bytes < 4 * tensors
