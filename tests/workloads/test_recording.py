"""A recording has every distinct call once, with the counts of all threads, processes and runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.workload import RecordedCall
from fmha_cli.plugin import WorkloadRecorder
from fmha_cli.workloads import recording
from fmha_cli.workloads.reading import read_workload
from tests.support.generators.strategies import problems
from tests.support.schema_checks import validator

pytestmark = pytest.mark.promise("A recording's counts add up over threads, processes and runs.")
ONE, TWO = Problem.of(seqlen=64, causal=True), Problem.of(batch=2, seqlen=1, kv_cache="linear", cache_seqlens=[5, 9])


def counts(path: Path) -> dict[str, int]:
    """Flags, or the words of a call without any -> count."""
    found: dict[str, int] = {}
    for call in read_workload(path).calls:
        key = call.problem.repro() if call.problem is not None else str(call.reason and call.reason.text)
        assert key not in found
        found[key] = call.count
    return found


def test_equal_calls_are_one_line(tmp_path: Path) -> None:
    with WorkloadRecorder(tmp_path / "new" / "folder") as recorder:
        for _ in range(7):
            recorder.record(ONE)
        recorder.record(TWO, 5)
        recorder.refuse("a mask by a function", "no flag expresses it", 2)
    assert counts(recorder.path) == {ONE.repro(): 7, TWO.repro(): 5, "a mask by a function: no flag expresses it": 2}
    lines = [json.loads(line) for line in recorder.path.read_text("utf-8").splitlines()]
    assert [list(validator("workload").iter_errors(line)) for line in lines] == [[], [], []]
    with WorkloadRecorder(tmp_path / "new" / "folder") as again:
        again.record(TWO)
    assert counts(recorder.path)[TWO.repro()] == 6
    assert os.listdir(recorder.path.parent) == [recording.NAME]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(problems(), st.integers(1, 9)), min_size=1, max_size=4))
def test_every_problem_comes_back(tmp_path: Path, drawn: list[tuple[Problem, int]]) -> None:
    (tmp_path / recording.NAME).unlink(missing_ok=True)
    wanted: dict[Problem, int] = {}
    with WorkloadRecorder(tmp_path) as recorder:
        for problem, count in drawn:
            recorder.record(problem, count)
            wanted[problem] = wanted.get(problem, 0) + count
    assert {call.problem: call.count for call in read_workload(recorder.path).calls} == wanted


def test_threads_lose_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "EVERY_S", 0.0)
    monkeypatch.setattr(recording, "_PART", 0)  # each call writes
    with WorkloadRecorder(tmp_path) as recorder:
        threads = [Thread(target=lambda: [recorder.record(ONE) for _ in range(10)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts(recorder.path) == {ONE.repro(): 40}


CLIENT = """
import os, sys, time
from fmha_cli.api import Problem
from fmha_cli.plugin import WorkloadRecorder
recorder = WorkloadRecorder(sys.argv[1])
for n in range(30):
    recorder.record(Problem.of(seqlen=16 + n % 3))
    recorder.flush()
recorder.record(Problem.of(seqlen=99))  # written when the process exits
child = os.fork() if hasattr(os, "fork") else None
if child == 0:
    recorder.record(Problem.of(seqlen=98))
elif child:
    os.waitpid(child, 0)
"""


def test_processes_lose_no_call(tmp_path: Path) -> None:
    clients = [subprocess.Popen([sys.executable, "-c", CLIENT, str(tmp_path)]) for _ in range(3)]
    assert [client.wait(60) for client in clients] == [0, 0, 0]
    forked = 3 if hasattr(os, "fork") else 0
    assert sum(counts(tmp_path / recording.NAME).values()) == 3 * 31 + forked


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_killed_client_leaves_a_recording_that_is_read(tmp_path: Path) -> None:
    endless = CLIENT.replace("range(30)", "range(10**9)").replace(
        "    recorder.flush()", "    recorder.flush(); print(n, flush=True)"
    )
    client = subprocess.Popen([sys.executable, "-c", endless, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    told = [int(next(client.stdout)) for _ in range(5)]
    client.kill()
    told += [int(line) for line in client.stdout]
    client.wait()
    assert told[-1] + 1 <= sum(counts(tmp_path / recording.NAME).values()) <= told[-1] + 2
    with WorkloadRecorder(tmp_path) as recorder:  # the lock of the dead is no obstacle
        recorder.record(ONE)


@pytest.mark.parametrize("text", ["hello", '{"schema": "fmha.workload/2", "count": 1, "flags": ""}', '{"count": 1}'])
def test_another_file_is_neither_taken_nor_changed(tmp_path: Path, text: str) -> None:
    (tmp_path / recording.NAME).write_text(text, "utf-8")
    with pytest.raises(UsageError, match="no recording") as caught:
        WorkloadRecorder(tmp_path)
    assert caught.value.code == "E080"
    assert (tmp_path / recording.NAME).read_text("utf-8") == text


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(EnvironmentProblem, match="cannot be written") as caught:
        WorkloadRecorder(tmp_path / "file")
    assert caught.value.code == "X040"


def test_counts_that_were_not_written_are_kept(tmp_path: Path) -> None:
    """A planted fault: the folder disappears, and comes back as a file, and then as a folder."""
    recorder = WorkloadRecorder(tmp_path / "here")
    recorder.flush()
    recorder._next = 1e99
    recorder.record(ONE, 3)
    recorder.path.unlink()
    recorder.path.parent.rmdir()
    recorder.path.parent.write_text("", "utf-8")
    with pytest.raises(EnvironmentProblem):
        recorder.flush()
    recorder.path.parent.unlink()
    recorder.close()
    assert counts(recorder.path) == {ONE.repro(): 3}


def test_others_that_keep_the_file_too_long_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "claim", lambda path, wait_s: None)
    with pytest.raises(EnvironmentProblem, match="cannot be written") as caught:
        WorkloadRecorder(tmp_path)
    assert "other processes" in str(caught.value.why)


def test_a_count_is_positive(tmp_path: Path) -> None:
    with WorkloadRecorder(tmp_path) as recorder, pytest.raises(UsageError, match="count of 0"):
        recorder.record(ONE, 0)


@pytest.mark.parametrize("parts", [{}, {"flags": "-s 4", "call": "x", "reason": "y"}, {"call": "x"}, {"reason": "y"}])
def test_a_line_has_flags_or_a_reason(parts: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="either flags"):
        RecordedCall(count=1, **parts)
    assert to_json(RecordedCall(count=1, flags="-s 4")) == {"schema": "fmha.workload/1", "count": 1, "flags": "-s 4"}
