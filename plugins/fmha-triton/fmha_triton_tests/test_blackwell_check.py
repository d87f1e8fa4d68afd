"""The check ``blackwell_check``: its problems, what becomes a row, and what the summary says. Nothing is executed."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton import building
from fmha_triton.catalogue import BLACKWELL, algorithm_of, function_of

from fmha_cli import api
from tests.checks import blackwell_check, triton_check
from tests.checks.blackwell_problems import all_problems
from tests.checks.command import overview
from tests.checks.triton_check import TritonPoint, build_of, chosen
from tests.checks.triton_problems import TritonProblem

SMALL = "-H 2 -s 64 -d 64 --dtype fp16"


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "triton_version", lambda: "3.9.0")


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_the_problems_are_enough_and_the_blackwell_kernel_is_chosen_for_them() -> None:
    points = list(blackwell_check.points())
    assert len({point.name for point in points}) == len(points) >= 60
    for point in points:
        kernel = chosen(point)
        assert kernel is not None, point.name
        assert function_of(kernel) == BLACKWELL, point.name
        assert point.problem.ctas in (None, algorithm_of(kernel).num_ctas)


def test_a_case_that_names_a_number_of_ctas_runs_with_that_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream takes one CTA for these problems. The build of a row is that of the named kernel."""
    named = [case for case in all_problems() if case.ctas]
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
        triton_check.executed(TritonPoint("sm_100a", one))
    kernel = chosen(TritonPoint("sm_100a", case))
    assert kernel is not None
    assert asked == [kernel.name, None]
    builds = {build_of(TritonPoint("sm_100a", replace(case, ctas=ctas))) for ctas in (None, 1, 2, 4)}
    assert len(builds) == 3
    assert build_of(TritonPoint("sm_100a", replace(case, ctas=3))) is None


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_a_problem_of_another_kernel_or_of_none_does_not_pass() -> None:
    other = blackwell_check.row_of(TritonPoint("sm_100a", TritonProblem("softcap", f"{SMALL} --softcap 20")))
    assert other["verdict"].startswith("another kernel: ")
    none = blackwell_check.row_of(TritonPoint("sm_100a", TritonProblem("dropout", f"{SMALL} --dropout 0.2")))
    assert none["verdict"] == "REFUSED"


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_the_summary_counts_rows_by_device_and_ctas_and_names_what_did_not_pass() -> None:
    row = {"arch": "sm_100a", "kind": "d64", "flags": "-s 128", "verdict": "PASSED", "ctas": 2, "kernel": "k"}
    text = overview(blackwell_check.CHECK, [row, {**row, "verdict": "WRONG", "why": "o is wrong", "flags": "-s 256"}])
    assert "| emu:sm_100a, 2 CTAs | 1 | 1 |" in text
    assert "o is wrong" in text
    assert "-s 128" not in text
    assert not blackwell_check.CHECK.good({**row, "verdict": "another kernel: forward"})
