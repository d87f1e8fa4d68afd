"""The walk's options: A/B, all kernels with regret, cold and hot, baselines, saved failures, dry runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.bench.peaks import Machine, measured_peaks
from fmha_cli.bench.roofline import FASTER_THAN_ROOFLINE, CacheState, Peaks
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.run.dispatcher import PEAK_TRIES
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run, Share
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.run.tensor_files import read_tensor
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.listing import list_entries

PROBLEM = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp16")


def null_kernel(behaviour: str) -> str:
    found = [k for k in api.list_kernels("null", backend="null") if f"behaviour={behaviour}" in k.name]
    return next(k for k in found if "dtype=fp16" in k.name).name


@pytest.mark.slow
@pytest.mark.ci
def test_two_kernels_in_turns_carry_each_others_ratio() -> None:
    honest = next(k for k in api.list_kernels("null", backend="null") if "dtype=fp16" in k.name).name
    first, second = api.run(PROBLEM, command="bench", backend="null", ab=(honest, null_kernel("slow")), budget_s=0.1)
    assert first.ab is not None
    assert second.ab is not None
    assert first.ab.ratio < 1 < second.ab.ratio
    assert (first.ab.against, second.ab.against) == (null_kernel("slow"), honest)


@pytest.mark.slow
@pytest.mark.ci
def test_hot_and_cold_are_rows_of_their_own() -> None:
    rows = api.run(PROBLEM, command="bench", backend="null", cache="both", budget_s=0.05)
    assert [r.measurement.cache for r in rows if r.measurement] == [CacheState.HOT, CacheState.COLD]
    with pytest.raises(UsageError, match="--cache"):
        api.run(PROBLEM, command="bench", backend="null", cache="warm")


@pytest.mark.slow
@pytest.mark.ci
def test_all_kernels_mark_the_default_with_its_regret() -> None:
    problem = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp32")
    rows = api.run(
        problem, command="bench", backend="cpu", arch="generic", all_kernels=True, budget_s=0.05, peak="spec"
    )
    assert [r.default_choice for r in rows] == [True, False]  # a decode kernel and a prefill kernel
    times = [r.measurement.median_ns for r in rows if r.measurement]
    assert len(times) == len(rows)
    default = next(r for r in rows if r.default_choice)
    assert default.measurement is not None
    assert default.regret == pytest.approx(default.measurement.median_ns / min(times) - 1)
    assert all(r.regret is None for r in rows if not r.default_choice)


@pytest.fixture
def own_peaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Peaks are kept in a folder of the test's own, while the kernels come from the cache of the run."""

    def measured(root: Path, machine: Machine, measure: Callable[[], Peaks], *, again: bool = False) -> Peaks:
        return measured_peaks(tmp_path, machine, measure, again=again)

    monkeypatch.setattr("fmha_cli.run.peaks.measured_peaks", measured)


@pytest.mark.promise(
    "README: How fast is it, against the machine's own peak?",
    "A peak is measured where a share of it is shown, and again where the machine was busy.",
)
@pytest.mark.usefixtures("own_peaks")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("low", "verdict"), [(PEAK_TRIES, Verdict.PASSED), (PEAK_TRIES + 1, Verdict.MISTRUSTED)])
def test_peaks_of_a_busy_machine_are_measured_again(
    monkeypatch: pytest.MonkeyPatch, low: int, verdict: Verdict
) -> None:
    """The first ``low`` measurements reach one FLOP/s; only a time that beats all of them is distrusted."""
    found: list[float] = []

    def peaks(*_: object) -> dict[str, object]:
        found.append(1.0 if len(found) < low else 1e18)
        return {"flops": {"fp32": found[-1]}, "bandwidth": None, "llc_bytes": None, "source": "the test"}

    monkeypatch.setattr(Supervisor, "peaks", peaks)
    problem = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp32")
    (row,) = api.run(problem, command="bench", backend="cpu", budget_s=0.01)
    assert row.verdict is verdict
    assert len(found) == 1 + PEAK_TRIES
    assert [r.id for r in row.reasons] == ([FASTER_THAN_ROOFLINE] if verdict is Verdict.MISTRUSTED else [])


@pytest.fixture(scope="module")
def without_peaks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for commands that need no peaks, which share their kernels."""
    return tmp_path_factory.mktemp("without-peaks")


@pytest.mark.promise("A peak is measured where a share of it is shown, and again where the machine was busy.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("command", ["run", "validate"])
def test_peaks_are_measured_only_where_a_share_of_them_is_shown(
    monkeypatch: pytest.MonkeyPatch, without_peaks: Path, command: str
) -> None:
    def peaks(*_: object) -> dict[str, object]:
        raise AssertionError("measured")

    monkeypatch.setattr(Supervisor, "peaks", peaks)
    problem = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp32")
    for row in api.run(problem, command=command, backend="cpu", cache_root=str(without_peaks)):
        assert row.verdict is Verdict.PASSED
        assert row.measurement is not None
        assert row.measurement.floor is None
    names = [entry.name or "" for entry in list_entries(CacheLayout(without_peaks))]
    assert names
    assert not [name for name in names if "peaks" in name]


@pytest.mark.usefixtures("own_peaks")
@pytest.mark.slow
@pytest.mark.ci
def test_a_pair_that_beats_the_roofline_is_distrusted(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"flops": {"fp32": 1.0}, "bandwidth": None, "llc_bytes": None, "source": "the test"}
    monkeypatch.setattr(Supervisor, "peaks", lambda *_: slow)
    problem = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp32")
    pair = tuple(c.kernel.digest for c in api.explain(problem, backend="cpu").supported[:2])
    options = {"command": "bench", "backend": "cpu", "ab": pair, "budget_s": 0.05}
    assert [r.verdict for r in api.run(problem, **options)] == [Verdict.MISTRUSTED] * 2


def test_a_baseline_is_compared_with(tmp_path: Path) -> None:
    old = api.run(PROBLEM, command="bench", backend="null", budget_s=0.1)
    path = tmp_path / "old.json"
    path.write_text(json.dumps(to_json(report_document(old, NO_ENVIRONMENT))), "utf-8")
    (new,) = api.run(PROBLEM, command="bench", backend="null", budget_s=0.1, baseline=str(path))
    assert new.baseline is not None
    assert new.baseline.against == "old.json"


def test_a_failure_is_saved_with_its_inputs(tmp_path: Path) -> None:
    (row,) = api.run(PROBLEM, backend="null", kernel=null_kernel("nan"), save_failures=str(tmp_path / "failed"))
    assert row.verdict is Verdict.WRONG
    assert row.saved is not None
    assert np.isnan(read_tensor(f"{row.saved}:out.o", "--q", "o").astype(np.float32)).any()
    assert read_tensor(row.saved, "--q", "q").shape == (1, 2, 16, 8)


def test_a_dry_run_builds_and_runs_nothing(tmp_path: Path) -> None:
    (row,) = api.run(PROBLEM, backend="cpu", dry_run=True, cache_root=str(tmp_path / "cache"))
    assert row.verdict is Verdict.NOT_RUN
    assert "dry run" in row.notes[0]
    assert not list(CacheLayout(tmp_path / "cache").digests())


def test_parts_of_a_sweep_share_a_worker() -> None:
    request = Request(command=Command.RUN, backend="null")
    with Supervisor() as supervisor:
        for heads in (1, 2):
            problem = api.Problem.from_cli(f"-H {heads} -s 16 -d 8")
            run = Run([problem], request, api.build_registry(), share=Share(supervisor=supervisor))
            assert [record.verdict for record in run.records()] == [Verdict.PASSED]
        assert supervisor.started == 1
        assert supervisor.worker_pid is not None
