"""``api.session``: one kernel called again and again."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli import api
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.phases import Phase
from fmha_cli.oracle.tensors import Array
from fmha_cli.run import kept_worker, logged
from fmha_cli.run.job import JobResult
from fmha_cli.run.process import WorkerProcess
from fmha_cli.run.session import AttentionSession
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.emulator import ID, PaperEmulator
from tests.support.fixtures.emulated import Sees, Told


def arrays(seqlen: int, seed: int = 0, heads: int = 2) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((1, heads, seqlen, 16), dtype=np.float32) for _ in range(3))
    return q, k, v


def attended(q: Array, k: Array, v: Array) -> Array:
    s = np.einsum("bhqd,bhkd->bhqk", q, k, dtype=np.float64) / q.shape[-1] ** 0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.asarray(p @ v / p.sum(-1, keepdims=True))


@pytest.fixture
def opened() -> Iterator[AttentionSession]:
    with api.session(backend="cpu") as session:
        yield session


def worker_of(session: AttentionSession) -> int:
    pid = session._supervisor.worker_pid
    assert pid is not None
    return pid


def test_each_call_has_its_own_answer(opened: AttentionSession) -> None:
    for seed in range(4):
        tensors = arrays(24, seed)
        np.testing.assert_allclose(opened(*tensors)["o"], attended(*tensors), atol=1e-5)
    assert opened.record is not None
    assert opened.record.verdict is api.Verdict.PASSED


def test_other_sizes_need_no_other_kernel(opened: AttentionSession) -> None:
    opened(*arrays(24))
    judged = opened.record
    for seqlen in (*range(20, 32), 24):  # more than have a place
        tensors = arrays(seqlen, seqlen, heads=3)
        np.testing.assert_allclose(opened(*tensors)["o"], attended(*tensors), atol=1e-5)
    assert opened.record is judged
    assert len({ready.row.choice.kernel for ready in opened._ready.values() if ready.row.choice}) == 1


def test_another_kernel_is_chosen_and_judged_where_the_first_does_not_serve(opened: AttentionSession) -> None:
    single, half = arrays(24), tuple(x.astype(np.float16) for x in arrays(24))
    records = []
    for _ in range(2):
        for tensors in (single, half):
            np.testing.assert_allclose(opened(*tensors)["o"].astype(float), attended(*single), atol=1e-2)
            records.append(opened.record)
    assert records[0] is not records[1]
    assert records[1] is records[2] is records[3]


@pytest.mark.parametrize("in_process", [False, True])
def test_a_cache_may_grow_and_have_other_rows(in_process: bool) -> None:
    with api.session(backend="cpu", kv_cache="linear", in_process=in_process) as session:
        for rows in (64, 96, 64):
            for length in (10, 11, 60, 10):
                (q, _, _), (_, k, v) = arrays(1, length), arrays(rows, rows + length)
                found = session(q, k, v, cache_seqlens=length)["o"]
                np.testing.assert_allclose(found, attended(q, k[:, :, :length], v[:, :, :length]), atol=1e-5)


def test_pages_are_read_by_each_calls_table() -> None:
    pages, rng = 12, np.random.default_rng(1)
    with api.session(backend="cpu", kv_cache="paged:16") as session:
        k, v = (rng.standard_normal((pages, 16, 2, 16), dtype=np.float32) for _ in range(2))
        for seed in range(4):
            (q, _, _), table = arrays(1, seed), rng.permutation(pages)[None, :3].astype(np.int32)
            found = session(q, k, v, block_table=table, cache_seqlens=40)["o"]
            rows = [x[table[0]].reshape(48, 2, 16).transpose(1, 0, 2)[None, :, :40] for x in (k, v)]
            np.testing.assert_allclose(found, attended(q, *rows), atol=1e-5)


@pytest.mark.parametrize("in_process", [False, True])
def test_a_backward_pass_alone_is_refused(in_process: bool) -> None:
    """It reads O and LSE, which a call cannot give: a later call would read what lies in their place."""
    q, k, v = arrays(24)
    with (
        api.session(backend="cpu", direction="bwd", in_process=in_process) as session,
        pytest.raises(api.UsageError, match="backward pass alone") as told,
    ):
        session(q, k, v, do=q)
    assert told.value.help == 'direction="fwd+bwd"; or saved=(o, lse) in process'


def test_flags_of_a_call_go_before_those_of_the_session() -> None:
    q, k, v = arrays(24)
    with api.session(backend="cpu", causal=True, lse=True) as session:
        masked = session(q, k, v)
        whole = session(q, k, v, causal=False)
    assert set(masked) == {"o", "lse"}
    np.testing.assert_allclose(masked["o"][:, :, 0], v[:, :, 0], atol=1e-5)
    np.testing.assert_allclose(whole["o"], attended(q, k, v), atol=1e-5)


def test_a_problem_holds_its_sizes() -> None:
    with api.session(api.Problem.of(heads=2, seqlen=24, hdim=16), backend="cpu") as session:
        session(*arrays(24))
        with pytest.raises(ImpossibleProblem, match="seqlen=24"):
            session(*arrays(25))


def test_a_worker_that_dies_in_a_call_costs_one_exception(
    opened: AttentionSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors, ask = arrays(24), WorkerProcess.ask
    opened(*tensors), opened(*tensors)

    def killed(self: WorkerProcess, *request: Any, **more: Any) -> Any:
        os.kill(self.pid, signal.SIGKILL)
        return ask(self, *request, **more)

    with monkeypatch.context() as patched:
        patched.setattr(WorkerProcess, "ask", killed)
        with pytest.raises(api.KernelFailure, match="CRASHED"):
            opened(*tensors)
    np.testing.assert_allclose(opened(*tensors)["o"], attended(*tensors), atol=1e-5)


def test_a_worker_that_dies_between_calls_costs_none(opened: AttentionSession) -> None:
    tensors = arrays(24)
    opened(*tensors), opened(*tensors)
    worker = opened._supervisor._worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    while worker.alive:
        time.sleep(0.01)
    np.testing.assert_allclose(opened(*tensors)["o"], attended(*tensors), atol=1e-5)


@pytest.mark.parametrize("behaviour", [Behaviour.ZEROS, Behaviour.SEGFAULT])
def test_a_bad_kernel_is_refused_by_its_first_call(behaviour: Behaviour) -> None:
    name = null_kernel(DType.FP32, Family.FWD, behaviour).name
    with api.session(backend="null", kernel=name) as session:
        for _ in range(2):  # it is judged until it passes
            with pytest.raises(api.KernelFailure, match=r"WRONG|CRASHED"):
                session(*arrays(24))


def test_calls_without_a_check_are_not_judged() -> None:
    name = null_kernel(DType.FP32, Family.FWD, Behaviour.ZEROS).name
    with api.session(backend="null", kernel=name, check="never") as session:
        assert session(*arrays(24))["o"].shape == (1, 2, 24, 16)
        assert session.record is None


def test_every_call_can_be_judged() -> None:
    with api.session(backend="cpu", check="always") as session:
        session(*arrays(24))
        first = session.record
        session(*arrays(24, 1))
        assert session.record is not first


HALF = [x.astype(np.float16) for x in arrays(24)]


@pytest.mark.parametrize("kind", ["lds-race", "out-of-bounds"])
@pytest.mark.parametrize("check", ["first", "always"])
def test_what_an_emulated_device_finds_counts_in_each_call(emulator: Told, sees: Sees, check: str, kind: str) -> None:
    sees(kind, launch=1)
    with api.session(backend="null", device=ID, check=check) as session:
        session(*HALF)
        with pytest.raises(api.KernelFailure, match="OUT_OF_BOUNDS" if kind == "out-of-bounds" else "HAZARD") as told:
            session(*HALF)
        assert kind in str(told.value.why)
        assert session(*HALF)["o"].shape == (1, 2, 24, 16)


def test_a_first_call_with_a_finding_proves_nothing(emulator: Told, sees: Sees) -> None:
    sees("lds-race", launch=0)
    with api.session(backend="null", device=ID) as session:
        with pytest.raises(api.KernelFailure, match="HAZARD"):
            session(*HALF)
        judged = session.record
        session(*HALF)
        assert session.record is not judged  # by the reference, since nothing was proven


def test_a_session_without_checks_looks_at_no_finding(emulator: Told, sees: Sees) -> None:
    sees("lds-race", "out-of-bounds")
    with api.session(backend="null", device=ID, check="never") as session:
        assert session(*HALF)["o"].shape == (1, 2, 24, 16)


def test_a_launch_that_ran_at_the_second_try_is_not_believed(
    opened: AttentionSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(*arrays(24)), opened(*arrays(24))
    run = Supervisor.run

    def again(self: Supervisor, *args: Any, **more: Any) -> JobResult:
        return replace(run(self, *args, **more), distrust="it died at first")

    with monkeypatch.context() as patched:
        patched.setattr(Supervisor, "run", again)
        with pytest.raises(api.KernelFailure, match="MISTRUSTED") as told:
            opened(*arrays(24))
    assert told.value.why == "it died at first"
    opened(*arrays(24))


@pytest.mark.parametrize("way", ["attention", "session"])
def test_long_work_is_heard(
    way: str, emulator: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lines of an emulator's build, and how far it is; nothing unasked."""
    heard: list[tuple[str, int, int]] = []
    build = PaperEmulator.build

    def slowly(self: PaperEmulator, device: Any, context: Any) -> Any:
        context.notify("building the emulator, once")
        for done in range(1, 4):
            context.phase(Phase.BUILD, done, 3)
        return build(self, device, context)

    monkeypatch.setattr(PaperEmulator, "build", slowly)
    monkeypatch.setattr(logged, "EVERY_S", 0.0)
    for level in (logging.WARNING, logging.INFO):
        caplog.clear()
        with caplog.at_level(level, "fmha"):
            if way == "attention":
                api.attention(*HALF, backend="null", device=ID, phase=lambda *told: heard.append(told))
            else:
                with api.session(backend="null", device=ID, phase=lambda *told: heard.append(told)) as session:
                    session(*HALF)
        assert bool(caplog.messages) is (level == logging.INFO)
    assert ("build", 3, 3) in heard
    assert {record.name for record in caplog.records} == {"fmha"}
    assert "building the emulator, once" in caplog.messages
    assert [line for line in caplog.messages if line.startswith("build: 3 of 3 after")]


def test_short_work_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fmha"):
        api.attention(*arrays(24), backend="cpu")
    assert caplog.messages == []


def test_a_problem_that_no_kernel_serves_says_why(opened: AttentionSession) -> None:
    with pytest.raises(api.UnsupportedError, match="no kernel") as told:
        opened(*arrays(24), dtype="fp32:bf16")
    assert told.value.why
    np.testing.assert_allclose(opened(*arrays(24))["o"], attended(*arrays(24)), atol=1e-5)


def test_threads_may_share_a_session(opened: AttentionSession) -> None:
    cases = [arrays(24 + n % 3, n) for n in range(24)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda tensors: opened(*tensors)["o"], cases))
    for tensors, answer in zip(cases, answers, strict=True):
        np.testing.assert_allclose(answer, attended(*tensors), atol=1e-5)


def test_a_session_explains_its_choice_and_ends(opened: AttentionSession) -> None:
    with pytest.raises(api.UsageError, match="no call"):
        opened.explain()
    opened(*arrays(24))
    pid = worker_of(opened)
    assert opened.explain().chosen is not None
    opened.close()
    with pytest.raises(api.UsageError, match="closed"):
        opened(*arrays(24))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("options", "word"), [({"check": "sometimes"}, "sometimes"), ({"backend": "cpu,null"}, "several")]
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], word: str) -> None:
    with pytest.raises(api.UsageError, match=word):
        api.session(**options)


def test_calls_leave_nothing_behind(opened: AttentionSession) -> None:
    """A sample of the ten thousand calls of ``benchmarks/sessions.py``."""
    opened(*arrays(24)), opened(*arrays(24))

    def held() -> tuple[int, int, int]:
        pid = worker_of(opened)
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{pid}/fd")), len(maps)

    before = held()
    for n in range(300):
        opened(*arrays(24, n))
    assert held()[:2] == before[:2]
    assert held()[2] < before[2] + 50


def test_attention_keeps_its_worker() -> None:
    tensors = arrays(24)
    assert api.attention(*tensors).verdict is api.Verdict.PASSED
    with kept_worker.kept_worker() as share:
        pid = share.supervisor.worker_pid
        with kept_worker.kept_worker() as another:
            assert another.supervisor is not share.supervisor
    assert api.attention(*tensors).verdict is api.Verdict.PASSED
    assert share.supervisor.worker_pid == pid
    mapped = Path(f"/proc/{pid}/maps").read_text()
    assert "memfd" not in mapped  # nor the tensors, which may be large


@pytest.mark.parametrize("in_process", [False, True])
def test_a_forked_child_works_beside_its_parent(in_process: bool) -> None:
    """Neither speaks through the other's worker, writes into its tensors, nor ends it."""

    def calls(session: AttentionSession, first: int) -> bool:
        cases = [arrays(24, seed) for seed in range(first, first + 60)]
        return all(np.allclose(session(*case)["o"], attended(*case), atol=1e-5) for case in cases)

    with api.session(backend="cpu", in_process=in_process) as session:
        calls(session, 0), calls(session, 60)
        mine = session._supervisor.worker_pid
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if calls(session, 200) and session._supervisor.worker_pid not in (mine, os.getppid()) else 2
                session.close()
            finally:
                os._exit(code)
        assert calls(session, 400)
        assert os.waitpid(child, 0)[1] == 0
        assert session._supervisor.worker_pid == mine
        assert calls(session, 600)


def test_a_session_forked_amid_a_call_does_not_wait_for_it() -> None:
    with api.session(backend="cpu") as session:
        session(*arrays(24))
        lock, held, over = session._lock, threading.Event(), threading.Event()

        def call() -> None:
            with lock:
                held.set()
                over.wait(30)

        other = threading.Thread(target=call)
        other.start()
        held.wait(30)
        child = os.fork()
        if not child:
            signal.alarm(30)
            os._exit(0 if np.allclose(session(*arrays(24))["o"], attended(*arrays(24)), atol=1e-5) else 2)
        assert os.waitpid(child, 0)[1] == 0
        over.set()
        other.join()


@pytest.mark.parametrize("in_process", [False, True])
def test_an_empty_batch_and_no_queries_need_no_kernel(in_process: bool) -> None:
    q, k, v = arrays(24)
    with api.session(backend="cpu", in_process=in_process, lse=True) as session:
        for _ in range(2):
            found = session(q[:0], k[:0], v[:0])
            assert {name: x.shape for name, x in found.items()} == {"o": (0, 2, 24, 16), "lse": (0, 2, 24)}
            rows = session(q[:, :, :0], k, v, do=q[:, :, :0])
            assert rows["dk"].shape == k.shape
            assert not rows["dk"].any()
            np.testing.assert_allclose(session(q, k, v)["o"], attended(q, k, v), atol=1e-5)
        assert not session(q, k[:, :, :0], v[:, :, :0])["o"].any()
