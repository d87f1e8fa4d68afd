"""The check ``triton_check``: an earlier row stands for the kernels that it was executed with, not for its problem."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton import building

from tests.checks import triton_check
from tests.checks.runner import Line, Wanted, add, digest_of, run
from tests.checks.triton_check import CHECK, TritonPoint
from tests.checks.triton_problems import TritonProblem

ARCH, PROBLEM = "gfx942", TritonProblem("both passes", "-H 2 -s 50 -d 64 --dtype fp16 --causal --direction fwd+bwd")
POINT = TritonPoint(ARCH, PROBLEM)


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "triton_version", lambda: "3.9.0")


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_a_row_falls_with_the_text_of_any_of_its_kernels_and_with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first kernel of the plan is that of the forward pass, the last that of the gradients."""
    old, emit = digest_of(CHECK, POINT), building.emit
    for family in ("fwd", "bwd_dq_dk_dv"):
        with monkeypatch.context() as patch:
            patch.setattr(building, "emit", lambda k, family=family: emit(k) + "#" * (k.family.value == family))
            assert digest_of(CHECK, POINT) != old
    assert digest_of(CHECK, POINT) == old
    monkeypatch.setattr(building, "triton_version", lambda: "99.0")
    assert digest_of(CHECK, POINT) != old


def test_what_nothing_supports_has_no_build() -> None:
    assert triton_check.build_of(TritonPoint(ARCH, TritonProblem("forward", "-H 2 -s 50 -d 20 --dtype fp16"))) is None


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_a_row_that_passed_stands_and_what_does_not_stand_is_executed_again(tmp_path: Path) -> None:
    stale = TritonPoint(ARCH, TritonProblem("forward", "-H 2 -s 50 -d 64 --dtype fp16"))
    wrong = replace(stale, arch="gfx950")
    journal, passed = tmp_path / "journal.jsonl", {"verdict": "PASSED"}
    for point, digest, row in (
        (POINT, digest_of(CHECK, POINT), passed),
        (stale, "of another text", passed),
        (wrong, digest_of(CHECK, wrong), {"verdict": "WRONG"}),
    ):
        add(journal, Line(point.name, digest, "", 0.0, (row,)))
    again: list[TritonPoint] = []
    check = replace(CHECK, cases=lambda: (POINT, stale, wrong), carry_out=lambda point: again.append(point) or passed)
    assert run(check, Wanted(), journal).good
    assert again == [stale, wrong]
