"""``--workload`` on the command line, and ``fmha workloads``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.layer import Layer
from fmha_cli.domain.problem import Problem
from fmha_cli.plugin import WorkloadRecorder
from fmha_cli.run import protocol
from fmha_cli.run.rows import Row
from tests.cli.conftest import Fmha, Result
from tests.support.generators.workload_files import dataset, definition, operator, trace
from tests.support.schema_checks import validator

NULL = ("--backend", "null")
QUICK = ("--budget", "0.01", "--peak", "spec")
SUM = pytest.mark.promise(
    "`--workload` gives a row for each distinct call, and the sum counts every call or says it cannot."
)
ROWS = pytest.mark.promise("What a workload's file does not say is a row with its reason, and the counts add up.")


@pytest.fixture
def recorded(home: Path) -> str:
    """Six calls of one problem, two of another, and three that have none."""
    with WorkloadRecorder(home / "work") as recorder:
        recorder.record(Problem.of(heads=2, seqlen=16, hdim=16, causal=True), 6)
        recorder.record(Problem.of(heads=2, seqlen=32, hdim=16), 2)
        recorder.refuse("a mask by a function", "no flag expresses it", 3)
    return "workload.jsonl"


@pytest.fixture
def whole(home: Path) -> str:
    """A recording in which every call has a problem."""
    with WorkloadRecorder(home / "work") as recorder:
        recorder.record(Problem.of(heads=2, seqlen=16, hdim=16, causal=True), 6)
        recorder.record(Problem.of(heads=2, seqlen=32, hdim=16), 2)
    return "workload.jsonl"


def rows(done: Result, *members: str) -> list[tuple[Any, ...]]:
    assert done.out, done.err
    return [tuple(row[m] if m in row else row["problem"].get(m) for m in members) for row in done.document["records"]]


@SUM
def test_the_sum_is_each_median_times_its_count(fmha: Fmha, whole: str) -> None:
    """From the recording to the sum, which is that by hand."""
    done = fmha("bench", "--workload", whole, *NULL, *QUICK, "--json")
    assert done.code == 0, done.err
    assert list(validator("report").iter_errors(done.document)) == []
    assert rows(done, "model", "phase", "layer_kind", "weight", "calls", "seqlen_q", "mask") == [
        (whole, None, None, 6, 8, 16, "causal"),
        (whole, None, None, 2, 8, 32, "none"),
    ]
    first, second = (row["measurement"]["median_ns"] for row in done.document["records"])
    (found,) = done.document["sums"]
    assert found["time_ns"] == 6 * first + 2 * second
    assert (found["model"], found["phase"], found["timed"], found["total"], found["complete"]) == (
        whole,
        None,
        8,
        8,
        True,
    )
    assert "refused" not in done.document
    assert f"{whole}: 8 calls of 2 problems" in done.err


@SUM
@ROWS
def test_calls_without_a_problem_are_told_and_never_left_out_of_the_count(fmha: Fmha, recorded: str) -> None:
    done = fmha("bench", "--workload", recorded, *NULL, *QUICK, "--json")
    assert done.code == 0, done.err
    (found,), (refused,) = done.document["sums"], done.document["refused"]
    assert (found["timed"], found["total"], found["complete"]) == (8, 11, False)
    assert (refused["count"], refused["reason"]["id"]) == (3, "W003")
    assert list(validator("report").iter_errors(done.document)) == []
    table = fmha("bench", "--workload", recorded, *NULL, *QUICK)
    assert " incomplete: " in table.out
    assert "in 8 of 11 calls; no time of 3 without a row" in table.out
    assert "3 calls without a problem: line 3: W003 a mask by a function: no flag expresses it" in table.out
    assert "3 without a problem; `fmha workloads workload.jsonl` lists all" in table.err
    assert [line.split()[2] for line in table.out.splitlines() if " PASSED " in line] == ["6", "2"]


@SUM
def test_a_row_without_a_time_makes_the_sum_incomplete(fmha: Fmha, whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the first problem finds no memory."""
    free = iter([1, *[1 << 40] * 9])
    monkeypatch.setattr(protocol, "available_bytes", lambda: next(free))
    done = fmha("bench", "--workload", whole, *NULL, *QUICK)
    assert done.code == 6, done.err
    assert "in 2 of 8 calls; no time of 6 (OUT_OF_MEMORY)" in done.out


@SUM
def test_caches_and_backends_have_a_sum_each(fmha: Fmha, whole: str) -> None:
    done = fmha("bench", "--workload", whole, *NULL, *QUICK, "--cache", "both", "--json")
    assert [(one["cache"], one["timed"]) for one in done.document["sums"]] == [("hot", 8), ("cold", 8)]
    done = fmha("bench", "--workload", whole, "--backend", "null,example", *QUICK, "--json")
    assert [(one["backend"], one["total"]) for one in done.document["sums"]] == [("null", 8), ("example", 8)]


@pytest.mark.parametrize("command", ["run", "validate"])
def test_other_commands_take_the_calls(fmha: Fmha, recorded: str, command: str) -> None:
    more = ("--fill", "normal") if command == "validate" else ()
    done = fmha(command, "--workload", recorded, *NULL, *more, "--json")
    assert done.code == 0, done.err
    weights = rows(done, "weight", "lse")
    assert [one for one in weights if not one[1]] == [(6, False), (2, False)]
    assert (done.document["sums"], len(done.document["refused"])) == ([], 1)
    assert len(fmha("run", "--workload", recorded, *NULL, "--dry-run", "--json").document["refused"]) == 1


@pytest.mark.slow
@pytest.mark.ci
def test_a_sweep_keeps_what_was_refused(fmha: Fmha, recorded: str, tmp_path: Path) -> None:
    states = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = fmha("sweep", "--workload", recorded, *NULL, *QUICK, "--json", **states)
    assert done.code == 0, done.err
    assert rows(done, "weight", "calls") == [(6, 11), (2, 11)]
    assert (done.document["sums"][0]["total"], done.document["refused"][0]["count"]) == (11, 3)
    late = fmha("sweep", "--workload", recorded, *NULL, *QUICK, "--time-limit", "0.001", "--json", **states)
    assert late.code == 4
    again = fmha("sweep", "--resume", "latest", "--json", **states)
    assert again.code == 0, again.err
    assert [row["verdict"] for row in again.document["records"]] == ["PASSED", "PASSED"]
    assert (again.document["sums"][0]["total"], again.document["refused"][0]["count"]) == (11, 3)


def test_flags_beside_override_every_call(fmha: Fmha, whole: str, home: Path) -> None:
    dry = ("run", "--workload", whole, *NULL, "--dry-run", "--json")
    assert rows(fmha(*dry, "--dtype", "bf16", "--window", "4"), "dtype", "mask", "weight") == [
        ("bf16", "window:4,0", 6),
        ("bf16", "window:4,0", 2),
    ]
    (home / "work" / "fmha.toml").write_text('heads = 16\nmask = "causal"\nmodel = "gemma-3-1b"\n', "utf-8")
    assert rows(fmha(*dry), "heads", "mask") == [(2, "causal"), (2, "none")]  # a file of settings overrides nothing


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "gemma-3-27b"), "--workload and --model contradict each other"),
        (("--phase", "decode"), "--workload and --phase contradict each other"),
        (("--q", "q.npy"), "--workload and --q contradict each other"),
        (("--dtype", "fp16,bf16"), "--dtype has several values beside --workload"),
        (("--heads", "3", "--kv-heads", "2"), "not a multiple"),
        (("--only", "0123456789"), "none of the 2 problems has it"),
    ],
)
def test_what_contradicts_a_workload(fmha: Fmha, whole: str, words: tuple[str, ...], said: str) -> None:
    done = fmha("bench", "--workload", whole, *words, *NULL)
    assert done.code in (2, 5)
    assert said in " ".join(done.err.split())


def test_a_file_that_is_none_ends_before_any_work(fmha: Fmha, home: Path) -> None:
    for command in (("run", "--workload"), ("workloads",)):
        done = fmha(*command, "missing.json")
        assert done.code == 2
        assert "error[E080]: " in done.err
        assert "no such file" in done.err
    assert fmha("workloads").code == 2
    assert fmha("run", "--workload", "missing.json", "--json").document["error"]["code"] == "E080"
    assert fmha("sweep", "--workload", "missing.json", "--problems", "x").code == 2


@ROWS
def test_a_file_without_a_problem_is_unsupported(fmha: Fmha, home: Path) -> None:
    (home / "work" / "t.json").write_bytes(trace(operator(kind="double")))
    done = fmha("bench", "--workload", "t.json", *NULL)
    assert done.code == 3
    assert "error[E081]: no problem describes a call of t.json" in done.err
    assert "element types double" in done.err
    assert fmha("workloads", "t.json").code == 0


@ROWS
def test_the_list_adds_up(fmha: Fmha, home: Path) -> None:
    events = [operator(start=20.0 * n, kind=("float", "double")[n % 3 == 2]) for n in range(9)]
    (home / "work" / "t.json").write_bytes(trace(*events))
    found = fmha("workloads", "t.json", "--json").document
    assert list(validator("workloads").iter_errors(found)) == []
    assert (found["total"], found["mapped"], found["refused"]) == (9, 6, 3)
    assert sum(row["count"] for row in found["rows"]) == 9
    assert [(row["count"], row["reason"] and row["reason"]["id"]) for row in found["rows"]] == [(6, None), (3, "W003")]
    assert found["rows"][0]["flags"] == "-b 2 -H 4 -s 16 -d 8 --dtype fp32"
    table = fmha("workloads", "t.json").out
    assert "t.json (torch profiler): 9 calls = 6 of 1 problem + 3 without a problem" in " ".join(table.split())
    assert len(fmha("workloads", "t.json", "--csv").out.splitlines()) == 3
    assert [json.loads(line)["count"] for line in fmha("workloads", "t.json", "--jsonl").out.splitlines()] == [6, 3]
    assert fmha("workloads", "t.json", "--sort", "calls").out.splitlines()[2].split()[0] == "3"


def test_a_file_that_takes_long_is_told_before(fmha: Fmha, whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_cli.cli.workloads._LARGE", 10)
    for words in (("workloads", whole), ("run", "--workload", whole, *NULL, "--dry-run")):
        assert f"reading {whole}, " in fmha(*words).err


def test_a_servers_workloads_run(fmha: Fmha, home: Path) -> None:
    axes = {"total_q": 7, "total_kv": 12, "len_indptr": 3}
    inputs = {"qo_indptr": [0, 3, 7], "kv_indptr": [0, 4, 12]}
    path = dataset(home / "work", definition("ragged"), {"axes": axes, "inputs": inputs})
    done = fmha("run", "--workload", str(path), *NULL, "--json")
    assert rows(done, "mode", "seqlens_q", "seqlens_k", "weight") == [("group", [3, 4], [4, 8], 1)]


def test_rows_of_other_counts_have_other_keys() -> None:
    """A resumed journal must not give the row of one workload to another."""
    problem = Problem.of()
    layers = [
        Layer(model=model, kind=None, phase=None, weight=weight, calls=calls)
        for model, weight, calls in (("a", 2, 9), ("b", 2, 9), ("a", 3, 9), ("a", 2, 8), ("a", 2, None))
    ]
    keys = [Row(group=0, problem=problem, choice=None, plan=None, layer=layer).key for layer in layers]
    assert len(set(keys)) == len(layers)
