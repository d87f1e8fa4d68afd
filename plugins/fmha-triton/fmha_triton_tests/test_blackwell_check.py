"""``benchmarks/blackwell_check.py``: its problems, what becomes a row, and what the table says. Nothing is executed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

import blackwell_check
import triton_check
from blackwell_cases import ARCHS, all_cases
from fmha_triton import building
from fmha_triton.catalogue import BLACKWELL, algorithm_of, function_of
from triton_cases import Case

from fmha_cli import api

CASE = next(all_cases())


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "triton_version", lambda: "3.9.0")
    monkeypatch.setattr(blackwell_check.importlib.metadata, "version", lambda name: "3.9.0")


def passed(arch: str, case: Case) -> dict[str, Any]:
    return {
        **blackwell_check.empty(arch, case), "verdict": "PASSED", "ctas": 2, "kernel": "k", "build": "b",
        "error": {"o": {"row_l2": 1e-4, "budget": 4e-4}}, "executed": [{"instructions": 1500}],
    }  # fmt: skip


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_the_problems_are_enough_and_the_blackwell_kernel_is_chosen_for_them() -> None:
    points = blackwell_check.points_of(ARCHS)
    assert len({(arch, case.flags) for arch, case in points}) == len(points) >= 60
    for case in all_cases():
        kernel = blackwell_check.chosen(case.archs[0], case)
        assert kernel is not None, case.flags
        assert function_of(kernel) == BLACKWELL, case.flags
        assert case.ctas in (None, algorithm_of(kernel).num_ctas)


def test_a_case_that_names_a_number_of_ctas_runs_with_that_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream takes one CTA for these problems. The build of a row is that of the named kernel."""
    named = [case for case in all_cases() if case.ctas]
    assert len(named) >= 12
    assert {(case.ctas, dtype) for case in named for dtype in ("16", "e4m3", "e5m2") if dtype in case.flags} == {
        (ctas, dtype) for ctas in (2, 4) for dtype in ("16", "e4m3", "e5m2")
    }
    case = named[0]
    asked: list[str | None] = []

    def run(problem: api.Problem, *, backend: str, device: str, kernel: str | None) -> tuple[api.Record, ...]:
        asked.append(kernel)
        raise api.UsageError("far enough", code="E002")

    monkeypatch.setattr(triton_check.api, "run", run)
    for one in (case, replace(case, ctas=None)):
        triton_check.executed("sm_100a", one)
    kernel = blackwell_check.chosen("sm_100a", case)
    assert kernel is not None
    assert asked == [kernel.name, None]
    builds = {triton_check.build_of("sm_100a", replace(case, ctas=ctas)) for ctas in (None, 1, 2, 4)}
    assert len(builds) == 3
    assert triton_check.build_of("sm_100a", replace(case, ctas=3)) is None


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_a_problem_of_another_kernel_or_of_none_does_not_pass() -> None:
    other = blackwell_check.row_of("sm_100a", Case("softcap", "-H 2 -s 64 -d 64 --dtype fp16 --softcap 20"))
    assert other["verdict"].startswith("another kernel: ")
    none = blackwell_check.row_of("sm_100a", Case("dropout", "-H 2 -s 64 -d 64 --dtype fp16 --dropout 0.2"))
    assert none["verdict"] == "REFUSED"


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_rows_that_were_not_run_are_in_the_file_and_the_table(tmp_path: Path) -> None:
    file, page = tmp_path / "rows.json", tmp_path / "page.md"
    arguments = ["--arch", "sm_100a", "--first", "3", "--json", str(file), "--markdown", str(page)]
    assert blackwell_check.main(arguments, passed) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["verdict"] for row in rows].count("PASSED") == 3
    assert len(rows) == len(blackwell_check.points_of(ARCHS))
    text = page.read_text()
    assert f"3 of 3 rows PASSED, {len(rows) - 3} rows NOT_RUN; 1 distinct kernels" in text
    assert "| emu:sm_100a | 2 | 3 PASSED |" in text
    assert f"| `{CASE.flags}` | 2 | PASSED | 1.0e-04 (25%) | 1,500 |" in text


def test_a_row_that_fails_is_the_exit_status() -> None:
    assert blackwell_check.main(["--first", "1"], lambda arch, case: {**passed(arch, case), "verdict": "WRONG"}) == 1
    assert blackwell_check.main(["--only", "no such case"], passed) == 1


def test_rows_of_an_earlier_run_stay_where_this_one_does_not_ask(tmp_path: Path) -> None:
    """A row that is asked for again stands only for the kernels that it was executed with."""
    file = tmp_path / "rows.json"
    blackwell_check.main(["--arch", "sm_100a", "--first", "2", "--json", str(file)], passed)
    again: list[str] = []

    def wrong(arch: str, case: Case) -> dict[str, Any]:
        again.append(case.flags)
        return {**passed(arch, case), "verdict": "WRONG"}

    blackwell_check.main(["--arch", "sm_100a", "--first", "1", "--json", str(file), "--resume"], wrong)
    assert again == [CASE.flags]
    verdicts = [row["verdict"] for row in json.loads(file.read_text())["rows"] if row["verdict"] != "NOT_RUN"]
    assert verdicts == ["WRONG", "PASSED"]
