"""What calls of ``api.attention`` leave to the next one: a worker and the rows that were planned, and nothing that is out of date."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli import api
from fmha_cli.domain.device import Availability
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.first_launch import FirstLaunch
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.run import kept_worker, rows
from fmha_cli.run.kept_worker import KeptWorker, kept_registry
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Request
from fmha_cli.run.rows import KNOWN_ROWS, KnownRows, Row
from fmha_cli.run.worker import KNOWN_JOBS, Worker
from tests.run.test_session import arrays

PROBLEM = Problem.of(heads=2, seqlen=24, hdim=16, dtype="fp32")
APPARENT = {"id", "started", "time_ns", "samples_ns", "median_ns", "tflops", "gbps", "cached"}
"""Members of a record that differ between two runs of one row."""


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problems for which a kernel was chosen."""
    asked: list[Problem] = []
    plan = rows.plan_rows

    def counted(points: Any, *rest: Any, **more: Any) -> list[Row]:
        asked.extend(points)
        return plan(points, *rest, **more)

    monkeypatch.setattr(rows, "plan_rows", counted)
    kept_worker._kept.cache_clear()
    return asked


def lasting(noun: Any) -> Any:
    if isinstance(noun, dict):
        return {name: lasting(value) for name, value in noun.items() if name not in APPARENT}
    return list(map(lasting, noun)) if isinstance(noun, list | tuple) else noun


def test_a_repeated_problem_is_chosen_once_and_has_the_same_record(chosen: list[Problem]) -> None:
    records = [api.attention(*arrays(24), backend="cpu").record for _ in range(3)]
    assert len(chosen) == 1
    assert lasting(records[0].to_dict()) == lasting(records[1].to_dict()) == lasting(records[2].to_dict())
    assert records[0].peak_bytes is not None
    assert len({record.run.id for record in records if record.run is not None}) == 3


@pytest.mark.parametrize("behaviour", [Behaviour.WRONG_VALUE, Behaviour.INPUT_WRITE])
def test_each_repeated_call_is_judged(behaviour: Behaviour, chosen: list[Problem]) -> None:
    name = null_kernel(DType.FP32, Family.FWD, behaviour).name
    verdicts = [api.attention(*arrays(24), backend="null", kernel=name).verdict for _ in range(3)]
    assert set(verdicts) == {api.Verdict.WRONG if behaviour is Behaviour.WRONG_VALUE else api.Verdict.OUT_OF_BOUNDS}
    assert len(chosen) == 1


def test_a_changed_variable_changes_the_worker_and_the_choice(
    chosen: list[Problem], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def worker() -> int | None:
        api.attention(*arrays(24), backend="cpu")
        with kept_worker.kept_worker() as share:
            return share.supervisor.worker_pid

    first = worker()
    assert worker() == first
    changes: list[Callable[[], None]] = [
        lambda: monkeypatch.setenv("FMHA_ANYTHING", "1"),
        lambda: monkeypatch.setenv("FMHA_ANYTHING", "2"),
        lambda: monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)]),
    ]
    for change in changes:
        change()
        again = worker()
        assert again != first
        first = again
    assert len(chosen) == 4


def test_a_plugin_that_is_installed_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = kept_registry()
    assert kept_registry() is before
    metadata = tmp_path / "late-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: late\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[fmha]\nlate = nothing_of_that_name\n")
    os.utime(tmp_path, ns=(1, 1))
    assert "late" in {fault.plugin for fault in kept_registry().faults}
    assert "late" not in {fault.plugin for fault in before.faults}


Plan = Callable[[KnownRows, Problem, Request, api.Registry, dict[str, Availability]], list[Row]]


def names_of(found: list[Row]) -> list[str]:
    return [row.choice.kernel.backend for row in found if row.choice is not None]


def check_changes(plan: Plan) -> None:
    """Each thing on which a choice depends, changed one after the other."""
    known, registry = KnownRows(), api.build_registry()
    here = probe_backends(registry, [registry.backend("cpu"), registry.backend("null")])
    without = {**here, "cpu": replace(here["cpu"], devices=())}
    request = Request(threads=1)
    assert names_of(plan(known, PROBLEM, request, registry, without)) == []
    assert names_of(plan(known, PROBLEM, request, registry, here)) == ["cpu"]
    assert names_of(plan(known, PROBLEM, replace(request, backend="null"), registry, here)) == ["null"]
    other = api.Registry({"cpu": "fmha_cli.backends.cpu"}, lambda: ())
    (row,) = plan(known, PROBLEM, request, other, here)
    assert row is not plan(known, PROBLEM, request, registry, here)[0]
    (again,) = plan(known, PROBLEM, replace(request, timeout=1.0), registry, here)
    assert again is not plan(known, PROBLEM, request, registry, here)[0]
    assert plan(known, replace(PROBLEM, lse=True), request, registry, here)[0].problem.lse


def test_what_a_choice_depends_on_is_looked_at() -> None:
    check_changes(KnownRows.plan)


@pytest.mark.parametrize("blind", ["found", "registry", "request"])
def test_a_memory_that_misses_a_change_is_noticed(blind: str) -> None:
    seen: dict[str, Any] = {}

    def stale(known: KnownRows, problem: Problem, request: Request, registry: Any, found: Any) -> list[Row]:
        given = {"request": request, "registry": registry, "found": found}
        given[blind] = seen.setdefault(blind, given[blind])
        return known.plan(problem, **given)

    with pytest.raises((AssertionError, api.FmhaError)):
        check_changes(stale)


def test_few_problems_are_remembered() -> None:
    known, registry = KnownRows(), api.build_registry()
    found = probe_backends(registry, [registry.backend("cpu")])
    for seqlen in range(1, KNOWN_ROWS + 9):
        known.plan(replace(PROBLEM, seqlen_q=seqlen), Request(backend="cpu"), registry, found)
    assert len(known._kept) == KNOWN_ROWS


def test_a_forked_child_has_a_worker_of_its_own() -> None:
    api.attention(*arrays(24), backend="cpu")
    with kept_worker.kept_worker() as share:
        mine = share.supervisor.worker_pid
    child = os.fork()
    if not child:
        code = 1
        try:
            good = api.attention(*arrays(24), backend="cpu").verdict is api.Verdict.PASSED
            with kept_worker.kept_worker() as share:
                code = 0 if good and share.supervisor.worker_pid not in (None, mine) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert api.attention(*arrays(24), backend="cpu").verdict is api.Verdict.PASSED
    with kept_worker.kept_worker() as share:
        assert share.supervisor.worker_pid == mine


def test_surroundings_that_stay_keep_the_worker() -> None:
    kept = KeptWorker()
    try:
        first, second = kept.share(), kept.share()
        assert first.known is second.known
        assert first.supervisor is second.supervisor
    finally:
        kept.supervisor.close()


def test_a_worker_remembers_few_first_launches() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = Worker(theirs)
        for number in range(KNOWN_JOBS + 5):
            worker._remembered(str(number), FirstLaunch(peak_bytes=number))
        assert list(worker._firsts) == [str(number) for number in range(5, KNOWN_JOBS + 5)]
