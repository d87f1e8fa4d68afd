"""``docs/explanation/timing.md`` names every member of a measurement and the constants in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.bench.compare import TOLERANCE
from fmha_cli.bench.difference import SUSPICIOUS
from fmha_cli.bench.measurement import NOISY
from fmha_cli.bench.processes import LEAST_SAMPLES, LEVEL
from fmha_cli.bench.ranks import ALPHA, FEWEST_PROCESSES, fewest_processes, smallest_p
from fmha_cli.bench.roofline import CONTRADICTED, FAR_BELOW, FASTER_THAN_ROOFLINE, FASTEST, MARGIN, PeakKind
from fmha_cli.bench.sampling import SETTLED, SamplingPolicy, StopReason
from fmha_cli.bench.stats import FEWEST, median_rank
from fmha_cli.cli.compare import PROCESSES_EACH
from fmha_cli.report.schemas import load
from fmha_cli.results.comparison import TO_CONFIRM
from fmha_cli.run.job import SHORTEST_NS, SLACK, SLACK_NS, UNTIMED, UNTIMED_NS
from fmha_cli.run.request import Request

pytestmark = pytest.mark.promise("The page on timing explains every figure of a row.")

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "timing.md").read_text("utf-8")
WORDS = " ".join(TEXT.split())


@pytest.mark.parametrize("name", load("record")["$defs"]["measurement"]["properties"])
def test_every_member_is_explained(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("reason", list(StopReason))
def test_every_stop_reason_is_named(reason: StopReason) -> None:
    assert f"`{reason.value}`" in TEXT


def test_constants() -> None:
    policy = SamplingPolicy()
    warm = f"until at least {policy.warmup_min} were made and the last {SETTLED} are within {policy.settle * 100:.0f} % of the fastest"
    assert warm in WORDS
    assert f"at most for {policy.warmup_max} launches or a fifth of the budget" in WORDS
    assert f"From {policy.min_samples} samples on" in WORDS
    assert f"narrower than {policy.rel_ci * 100:.0f} % of the median" in WORDS
    assert f"stops at {policy.max_samples} samples or after {policy.budget_ns // 10**9} s" in WORDS
    assert f"The budget counts only from {policy.min_samples} samples on" in WORDS
    assert f"After {policy.max_ns // 10**9} s (`--max-time`" in WORDS
    assert (policy.budget_ns, policy.max_ns) == tuple(int(s * 1e9) for s in (Request().budget_s, Request().max_time_s))
    assert f"fewer than {FEWEST} samples; `wide`" in WORDS
    assert median_rank(FEWEST - 1) is None
    assert median_rank(FEWEST) is not None
    assert f"wider than {NOISY * 100:.0f} % of the median (±{NOISY * 50:.0f} %)" in WORDS
    assert f"(by more than {SLACK * 100:.0f} % and {SLACK_NS // 1000} µs)" in WORDS
    assert f"less than {SHORTEST_NS} ns for any work at all" in WORDS
    assert f"waited for {UNTIMED} times the reported time or more, and at least {UNTIMED_NS // 10**6} ms" in WORDS
    assert f"reason {CONTRADICTED}" in WORDS
    assert (FASTEST, FAR_BELOW) == (1 / 20, 1 / 2)
    assert "fastest twentieth is below half of that" in WORDS
    assert f"more than {MARGIN[PeakKind.MEASURED] * 100:.0f} % below the measured floor" in WORDS
    assert f"({MARGIN[PeakKind.SPEC] * 100:.0f} % for the data sheet's)" in WORDS
    assert f"reason {FASTER_THAN_ROOFLINE}" in WORDS


def test_constants_of_comparisons() -> None:
    assert f"least {FEWEST_PROCESSES} processes on each side" in WORDS
    assert f"by the logarithm of its {LEVEL * 100:.0f} % quantile" in WORDS
    assert f"needs at least {LEAST_SAMPLES} samples to count" in WORDS
    assert f"at most `--alpha` ({ALPHA})" in WORDS
    assert f"beyond `--tolerance` ({TOLERANCE * 100:.0f} %)" in WORDS
    assert f"First, {PROCESSES_EACH} processes a side" in WORDS
    assert f"no p value is below {smallest_p(PROCESSES_EACH, PROCESSES_EACH):.5f}" in WORDS
    assert fewest_processes(321) == PROCESSES_EACH < fewest_processes(322)
    assert f"p value of at most {SUSPICIOUS}" in WORDS
    assert f"at least {TO_CONFIRM} fresh processes a side" in WORDS
