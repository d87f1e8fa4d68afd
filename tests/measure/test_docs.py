"""``docs/benchmarking.md`` names every member of a measurement and the constants in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.measure.baseline import REGRESSION
from fmha_cli.measure.roofline import FASTER_THAN_ROOFLINE, MARGIN, PeakKind
from fmha_cli.measure.sampling import SETTLED, SamplingPolicy, StopReason
from fmha_cli.report.schemas import load

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "benchmarking.md").read_text("utf-8")
WORDS = " ".join(TEXT.split())


@pytest.mark.parametrize("name", load("record")["$defs"]["measurement"]["properties"])
def test_every_member_is_explained(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("reason", list(StopReason))
def test_every_stop_reason_is_named(reason: StopReason) -> None:
    assert f"`{reason.value}`" in TEXT


def test_constants() -> None:
    policy = SamplingPolicy()
    warm = f"until at least {policy.warmup_min} were made and the last {SETTLED} are within {policy.settle * 100:.0f} %"
    assert warm in WORDS
    assert f"{policy.warmup_max} launches or a fifth of the budget" in WORDS
    assert f"From {policy.min_samples} samples on" in WORDS
    assert f"narrower than {policy.rel_ci * 100:.0f} % of the median" in WORDS
    assert f"stops at {policy.max_samples} samples or after {policy.budget_ns // 10**9} s" in WORDS
    assert f"more than {MARGIN[PeakKind.MEASURED] * 100:.0f} % below the measured floor" in WORDS
    assert f"({MARGIN[PeakKind.SPEC] * 100:.0f} % for the data sheet's)" in WORDS
    assert f"reason {FASTER_THAN_ROOFLINE}" in WORDS
    assert f"more than {REGRESSION * 100:.0f} % slower" in WORDS
