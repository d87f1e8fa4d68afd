"""The published conformance tests, and one run through the installed registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fmha_example
import pytest

from fmha_cli import api, conformance, plugin


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[conformance.Subject], None], tmp_path: Path) -> None:
    check(conformance.Subject(fmha_example.ExampleBackend(), entry="fmha_example", cache_root=tmp_path / "cache"))


def test_it_is_installed_and_runs_by_name(tmp_path: Path) -> None:
    problem = api.Problem.of(seqlen=40, hdim=24, heads=6, kv_heads=2, dtype="fp32", causal=True, lse=True)
    (record,) = api.run(problem, backend="example", cache_root=str(tmp_path / "cache"))
    assert record.verdict is api.Verdict.PASSED
    assert record.backend == "example"


def test_its_calls_can_be_recorded(tmp_path: Path) -> None:
    with plugin.WorkloadRecorder(tmp_path) as recorder:
        recorder.record(api.Problem.of(seqlen=40, hdim=24, causal=True), 2)
    assert '"count": 2, "flags": "-s 40 -d 24 --causal"' in recorder.path.read_text("utf-8")


def test_it_is_never_chosen_by_auto() -> None:
    chosen = api.explain(api.Problem.of(dtype="fp32")).chosen
    assert chosen is not None
    assert chosen.backend != "example"


def test_it_stays_short() -> None:
    assert fmha_example.__file__ is not None
    assert len(Path(fmha_example.__file__).read_text("utf-8").splitlines()) < 150
