"""Runs attention kernels that people wrote in assembly: an anchor without any compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from fmha_amdgpu_emu_tests.support.assembly_backward import Backward, backward
from fmha_amdgpu_emu_tests.support.assembly_cases import MANY_BACKWARD, MANY_FORWARD, QUICK_BACKWARD, QUICK_FORWARD
from fmha_amdgpu_emu_tests.support.assembly_forward import Forward, forward
from fmha_amdgpu_emu_tests.support.assembly_others import MANY_OTHERS, QUICK_OTHERS, Other

LSE_ERROR = 3e-6
WRITES = ("ds_write", "buffer_load")


def title(case: object) -> str:
    return case.title if isinstance(case, Forward | Backward | Other) else ""


def check_findings(case: Forward | Backward, findings: list[dict[str, Any]]) -> None:
    """There are no findings, or only races in which a write comes too early; no read of data that is not there yet."""
    assert case.races or findings == []
    for finding in findings:
        assert finding["kind"] == "lds-race"
        assert finding["instruction"].startswith(WRITES)


def check_forward(case: Forward) -> None:
    outcome = forward(case)
    assert outcome.error < case.limit
    assert outcome.lse_error < LSE_ERROR
    check_findings(case, outcome.findings)


def check_backward(case: Backward) -> None:
    outcome = backward(case)
    assert max(outcome.errors) < case.limit, outcome.errors
    check_findings(case, outcome.findings)


def check_other(case: Other) -> None:
    error, observed = case.call()
    assert error < case.limit
    assert {finding["kind"] for finding in observed["findings"]} <= {case.known}


@pytest.mark.parametrize("case", QUICK_FORWARD, ids=title)
def test_forward(case: Forward) -> None:
    check_forward(case)


@pytest.mark.parametrize("case", QUICK_BACKWARD, ids=title)
def test_backward(case: Backward) -> None:
    check_backward(case)


@pytest.mark.parametrize("case", QUICK_OTHERS, ids=title)
def test_other_kernels(case: Other) -> None:
    check_other(case)


@pytest.mark.parametrize("case", [c for c in QUICK_FORWARD if c.races], ids=title)
def test_a_race_shows(case: Forward) -> None:
    """Upstream's race is found and harmless with waves in step; with one wave after another it corrupts the numbers."""
    assert [f["kind"] for f in forward(case).findings] != []
    late = forward(replace(case, turn=0))
    assert late.error > 0.1
    assert "is read by" in " ".join(f["text"] for f in late.findings)


@pytest.mark.slow
@pytest.mark.parametrize("case", MANY_FORWARD, ids=title)
def test_forward_of_many_shapes(case: Forward) -> None:
    check_forward(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", MANY_BACKWARD, ids=title)
def test_backward_of_many_shapes(case: Backward) -> None:
    check_backward(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", MANY_OTHERS, ids=title)
def test_more_of_the_others(case: Other) -> None:
    check_other(case)
