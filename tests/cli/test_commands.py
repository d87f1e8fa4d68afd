"""Every command: its document is valid against its schema in every format, and the command does its job."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmha_null.kernels import null_kernel
from jsonschema import Draft202012Validator

from fmha_cli.cli.commands import COMMANDS, known_options
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from tests.cli.conftest import Fmha, Result
from tests.support.schema_checks import validator

SMALL = ("--backend", "null", "--seqlen", "32", "--heads", "1", "--hdim", "32")
HONEST = null_kernel(DType.FP16, Family.FWD).digest[:16]
SPLIT = null_kernel(DType.FP16, Family.FWD_SPLITKV).digest[:16]

WORKLOAD = str(Path(__file__).parents[1] / "golden" / "workload.jsonl")
RESULTS = str(Path(__file__).parents[1] / "report" / "record_1.json")

EVERY: dict[str, tuple[str, ...]] = {
    "run": ("run", *SMALL),
    "run --dry-run": ("run", *SMALL, "--dry-run"),
    "validate --invariant": ("validate", *SMALL, "--invariant"),
    "validate": ("validate", *SMALL, "--fill", "normal,coded"),
    "bench": ("bench", *SMALL, "--budget", "0.02", "--cache", "both", "--peak", "spec"),
    "compare": ("compare", RESULTS, RESULTS),
    "explain": ("explain", *SMALL),
    "explain K012": ("explain", "K012"),
    "plan": ("plan", *SMALL, "--splits", "2"),
    "list-kernels": ("list-kernels", "--arch", "null"),
    "build": ("build", *SMALL),
    "build --dry-run": ("build", "--backend", "null", "--filter", "dtype:fp16", "--dry-run"),
    "inspect": ("inspect", HONEST, "--arch", "null"),
    "inspect --all": ("inspect", "--all", "--arch", "null", "--filter", "dtype:fp16,family:fwd,behaviour:honest"),
    "inspect --diff": ("inspect", "--arch", "null", "--diff", HONEST, SPLIT),
    "parity": ("parity", "--list"),
    "doctor": ("doctor",),
    "devices": ("devices", "--backend", "null"),
    "plugins": ("plugins",),
    "archs": ("archs",),
    "profiles": ("profiles",),
    "models": ("models",),
    "workloads": ("workloads", WORKLOAD),
    "sweep": ("sweep", *SMALL, "--step", "run"),
    "sweep --dry-run": ("sweep", *SMALL, "--dry-run"),
    "tune --dry-run": ("tune", *SMALL, "--dry-run"),
    "tune ls": ("tune", "ls"),
    "tune verify": ("tune", "verify"),
    "results ls": ("results", "ls"),
    "cache ls": ("cache", "ls"),
    "cache stats": ("cache", "stats"),
    "cache verify": ("cache", "verify"),
    "cache prune": ("cache", "prune", "--dry-run"),
    "cache why": ("cache", "why", HONEST, "--arch", "null"),
    "cache export": ("cache", "export", "kernels.tar"),
    "sources": ("sources",),
    "sources verify": ("sources", "verify"),
    "schema": ("schema",),
    "schema report": ("schema", "report"),
}


SETS = ("cache", "plugins", "results", "sources", "tune")
"""Commands with subcommands that share options."""

WITHOUT = {"report", "worker"}
"""Commands that print no document: ``test_report.py``, ``tests/sweeps``."""


def faults_of(document: dict[str, Any]) -> list[str]:
    if "$schema" in document:
        Draft202012Validator.check_schema(document)
        return []
    name = document["schema"].removeprefix("fmha.").partition("/")[0]
    return [f"{e.json_path}: {e.message}" for e in validator(name).iter_errors(document)]


def test_every_command_is_here() -> None:
    assert {words[0] for words in EVERY.values()} == set(COMMANDS) - WITHOUT


@pytest.mark.promise("stdout carries data only; messages go to stderr.")
@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", EVERY)
def test_json_is_one_valid_document_with_sorted_keys(fmha: Fmha, request: pytest.FixtureRequest, name: str) -> None:
    if name.startswith("cache"):
        request.getfixturevalue("small_cache")
    done = fmha(*EVERY[name], "--json")
    assert done.code == 0, done.err
    assert faults_of(done.document) == []
    if not name.startswith("schema "):
        assert list(done.document) == sorted(done.document)


OTHER_FORMATS = [
    name for name in EVERY if not name.startswith(("schema", "doctor")) and name not in ("bench", "validate")
]
"""``bench`` and ``validate`` print the same kind of rows as ``run``."""


@pytest.mark.promise("stdout carries data only; messages go to stderr.")
@pytest.mark.sampled(2, ci=12)
@pytest.mark.parametrize(
    "name",
    # A sweep gives the report of its step, as tests/cli/test_sweep.py shows, and starts a process for each format.
    [pytest.param(name, marks=pytest.mark.slow) if name == "sweep" else name for name in OTHER_FORMATS],
)
def test_other_formats_print(fmha: Fmha, request: pytest.FixtureRequest, name: str) -> None:
    if name.startswith("cache"):
        request.getfixturevalue("small_cache")
    argv = EVERY[name]
    table = fmha(*argv)
    assert table.code == 0
    assert table.out.strip()
    for line in fmha(*argv, "--jsonl").out.splitlines():
        json.loads(line)
    rows = list(csv.reader(io.StringIO(fmha(*argv, "--csv").out)))
    assert len({len(row) for row in rows}) == 1
    assert fmha(*argv, "--md").code == 0


def test_no_command_shows_an_option_twice() -> None:
    for name, options in known_options().items():
        if name not in SETS:
            assert len(options) == len(set(options)), name


def test_every_option_reaches_a_variable_and_help(fmha: Fmha) -> None:
    for name, options in known_options().items():
        if name not in SETS:
            text = fmha(name, "--help").out
            assert not [option for option in options if f"--{option}" not in text]


@pytest.mark.promise("Lists and ranges run a sweep, whose rows come in order.")
@pytest.mark.slow
@pytest.mark.ci
def test_rows_of_a_sweep_come_in_order_and_are_announced(fmha: Fmha) -> None:
    done = fmha("run", *SMALL, "--dtype", "fp16,bf16", "--mask", "none", "--mask", "causal", "--json")
    problems = [(r["problem"]["dtype"], r["problem"]["mask"]) for r in done.document["records"]]
    assert problems == [(d, m) for d in ("fp16", "bf16") for m in ("none", "causal")]
    assert "4 problems (dtype x2, mask x2)" in done.err
    assert "problems" not in fmha("run", *SMALL, "--dtype", "fp16,bf16", "-q", "--json").err


def test_impossible_points_are_dropped_with_a_note(fmha: Fmha) -> None:
    sweep = (
        "run",
        "--backend",
        "null",
        "--seqlen",
        "16",
        "--hdim",
        "32",
        "--heads",
        "4,6",
        "--kv-heads",
        "4",
        "--json",
    )
    assert fmha(*sweep).code == 2
    done = fmha(*sweep, "--skip-impossible")
    assert done.code == 0
    assert [r["problem"]["heads"] for r in done.document["records"]] == [4]
    assert "--heads 6" in done.err
    nothing = fmha("run", "--heads", "5,6", "--kv-heads", "4", "--skip-impossible")
    assert nothing.code == 5
    assert "S003" in nothing.err


def test_repro_lines_give_the_row_again(fmha: Fmha) -> None:
    first = fmha("run", *SMALL, "--causal", "--lse", "--json").document["records"][0]
    again = fmha(*first["repro"].split()[1:], "--json").document["records"][0]
    assert again["problem"] == first["problem"]
    assert again["kernel"]["digest"] == first["kernel"]["digest"]


def test_dry_run_runs_nothing(fmha: Fmha) -> None:
    done = fmha("run", *SMALL, "--dropout", "0,0.5", "--dry-run", "--json")
    assert done.code == 0
    assert [r["verdict"] for r in done.document["records"]] == ["NOT_RUN", "UNSUPPORTED"]
    assert done.document["records"][0]["stages"][0]["time_ns"] is None
    assert fmha("run", *SMALL, "--dropout", "0.5", "--dry-run").code == 3


def test_tensors_from_and_to_files(fmha: Fmha) -> None:
    generator = np.random.default_rng(7)
    for name in "qkv":
        np.save(f"{name}.npy", generator.standard_normal((1, 2, 16, 32)).astype(np.float32))
    files = ("--q", "q.npy", "--k", "k.npy", "--v", "v.npy")
    done = fmha("run", "--backend", "null", *files, "--causal", "--out", "o.npz", "--lse", "--json")
    assert done.code == 0, done.err
    problem = done.document["records"][0]["problem"]
    assert (problem["heads"], problem["seqlen_q"], problem["hdim"], problem["dtype"]) == (2, 16, 32, "fp32")
    with np.load("o.npz") as archive:
        assert set(archive.files) == {"o", "lse"}
        assert archive["o"].shape == (1, 2, 16, 32)
    done = fmha("run", "--backend", "null", *files, "--heads", "4", "--json")
    assert done.code == 2
    assert done.document["error"]["code"] == "P015"
    Path("fmha.toml").write_text("heads = 4\nseqlen = 512")
    assert fmha("run", "--backend", "null", *files).code == 0


def test_a_sweep_writes_one_file_for_each_row(fmha: Fmha) -> None:
    sweep = ("run", *SMALL, "--dtype", "fp16,fp32", "--out")
    assert fmha(*sweep, "o.npy").code == 2
    assert fmha(*sweep, "o-{i}.npy").code == 0
    assert sorted(p.name for p in Path.cwd().glob("o-*.npy")) == ["o-1.npy", "o-2.npy"]


@pytest.mark.slow
@pytest.mark.ci
def test_a_row_ends_after_its_longest_time(fmha: Fmha) -> None:
    """Without it a row takes ten samples, however small the budget is."""
    bench = ("bench", *SMALL, "--budget", "1e-9", "--json")
    assert _sampled(fmha(*bench)) == ("budget", 10)
    assert _sampled(fmha(*bench, "--max-time", "1e-9")) == ("max_time", 1)
    assert _sampled(fmha(*bench, FMHA_MAX_TIME="1e-9")) == ("max_time", 1)
    assert fmha(*bench, "--max-time", "0").code == 2


def _sampled(done: Result) -> tuple[str, int]:
    measurement = done.document["records"][0]["measurement"]
    return measurement["stop"], len(measurement["samples_ns"])


def test_ab_takes_two_kernels(fmha: Fmha) -> None:
    done = fmha("bench", *SMALL, "--budget", "0.05", "--ab", HONEST, SPLIT, "--json")
    assert done.code == 0, done.err
    records = done.document["records"]
    assert [bool(r["ab"]) for r in records] == [True, True]
    assert {r["measurement"]["stop"] for r in records} <= {"converged", "budget"}
    assert all(r["measurement"]["warmup"] >= 3 for r in records)
    assert fmha("bench", *SMALL, "--ab", HONEST).code == 2
    assert fmha("bench", *SMALL, FMHA_AB=HONEST).code == 2


def test_resume_needs_the_same_rows(fmha: Fmha) -> None:
    sweep = ("run", *SMALL, "--dtype", "fp16,fp32", "--json")
    assert fmha(*sweep, "--journal", "rows.journal").code == 0
    assert fmha(*sweep, "--resume", "rows.journal").code == 0
    assert fmha("run", *SMALL, "--resume", "rows.journal").code == 2
    assert fmha(*sweep, "--resume", "missing.journal").code == 2


@pytest.mark.promise(
    "README: Which kernels exist for an architecture?", "`list-kernels` lists the kernels of an architecture."
)
def test_list_kernels(fmha: Fmha) -> None:
    whole = fmha("list-kernels", "--backend", "null", "--json").document
    assert whole["count"] == len(whole["kernels"]) > 60
    assert fmha("list-kernels", "--backend", "null", "--count").out == f"{whole['count']}\n"
    some = fmha("list-kernels", "--backend", "null", "--dtype", "fp16,fp32", "--family", "fwd", "--json").document
    assert {(k["family"], k["signature"]["dtype"]) for k in some["kernels"]} == {("fwd", "fp16"), ("fwd", "fp32")}
    named = fmha("list-kernels", "--arch", "null", "--profile", "forward", "--json").document
    assert 0 < named["count"] <= whole["count"]
    assert fmha("list-kernels", "--profile", "backward", "--backend", "null").code == 5
    assert fmha("list-kernels", "--profile", "froward").code == 2
    assert "did you mean forward" in fmha("list-kernels", "--profile", "froward").err


def test_plan_of_an_unsupported_problem(fmha: Fmha) -> None:
    done = fmha("plan", *SMALL, "--dropout", "0.5", "--json")
    assert done.code == 3
    assert done.document["kernel"] is None
    assert done.document["reasons"][0]["id"] == "K009"


@pytest.mark.usefixtures("small_cache")
def test_cache_round_trip(fmha: Fmha, home: Path) -> None:
    assert fmha("build", *SMALL).code == 0
    listed = fmha("cache", "ls", "null:fwd:*", "--json").document
    assert listed["count"] >= 1
    entry = listed["entries"][0]["digest"]
    assert fmha("cache", "export", "one.tar", entry, "--json").document["export"]["digests"] == [entry]
    other = ("--cache-dir", str(home / "other"))
    shown = fmha("cache", "import", "one.tar", *other, "--dry-run", "--json").document["import"]
    assert (shown["added"], shown["dry_run"], shown["held"][0]["code"]) == ([entry], True, "host")
    assert fmha("cache", "import", "one.tar", *other).code == 2
    assert fmha("cache", "ls", *other, "--json").document["count"] == 0
    assert fmha("cache", "import", "one.tar", *other, "--trust", "--json").document["import"]["added"] == [entry]
    assert fmha("cache", "ls", *other, "--json").document["count"] == 1
    assert fmha("cache", "verify", *other).code == 0
    assert fmha("cache", "ls", "ffffffffffff", *other).code == 5
    assert fmha("cache", "prune", "--max-age", "soon", *other).code == 2


def test_cache_why(fmha: Fmha, home: Path) -> None:
    why = ("cache", "why", HONEST, "--arch", "null", "--cache-dir", str(home / "fresh"), "--json")
    assert fmha(*why).document["why"]["standing"] == "unknown"
    assert fmha("build", *SMALL, "--cache-dir", str(home / "fresh")).code == 0
    assert fmha(*why).document["why"]["standing"] == "hit"


def test_an_unsafe_cache_root_is_refused(fmha: Fmha, home: Path) -> None:
    (home / "open").mkdir()
    (home / "open").chmod(0o777)
    done = fmha("cache", "ls", "--cache-dir", str(home / "open"), "--json")
    assert done.code == 4
    assert done.document["error"]["code"] == "B001"


@pytest.mark.usefixtures("few_plugins")
def test_doctor_judges_what_is_named(fmha: Fmha) -> None:
    done = fmha("doctor", "null", "--json")
    assert done.code == 0
    checks = {(c["name"], c["subject"]): c["state"] for c in done.document["checks"]}
    assert checks["backend", "null"] == "ok"
    assert fmha("doctor", "nul").code == 2
    Path("fmha.toml").write_text("quiet = true")
    assert ("configuration", str(Path.cwd() / "fmha.toml")) in {
        (c["name"], c["subject"]) for c in fmha("doctor", "--json").document["checks"]
    }


@pytest.mark.usefixtures("few_plugins")
@pytest.mark.slow
@pytest.mark.ci
def test_doctor_fails_for_a_named_backend_that_is_broken(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_null.rank_of", lambda kernel: (-ord(kernel.algorithm.behaviour.value[0]),))
    assert fmha("doctor").code == 0
    done = fmha("doctor", "null", "--json", "--timeout", "2")
    assert done.code == 4
    states = {c["subject"]: c["state"] for c in done.document["checks"] if c["name"] == "backend"}
    assert states["null"] == "failed"


@pytest.mark.slow
@pytest.mark.ci
def test_no_command_replaces_a_file(fmha: Fmha) -> None:
    """Commands that run use the file, or refuse it before anything runs."""
    row = ("--backend", "null", "-H", "1", "-s", "8", "-d", "8", "--dtype", "fp32", "--bias-file", "b.npy")
    filled = ("--q", "filled", "--k", "filled", "--v", "filled")
    np.save("b.npy", np.zeros((1, 1, 8, 8), np.float32))
    for command in ("run", "validate", "bench", "sweep"):
        done = fmha(command, *row)
        assert (done.code, done.out) == (2, ""), command
        assert done.err.startswith("error[P021]: q, k and v are not given beside bias\n"), command
    done = fmha("sweep", *row, *filled, "--json", "--step", "run")
    assert done.code == 0, done.err
    (record,) = done.document["records"]
    assert record["inputs"]["files"] == {"bias": "b.npy", "q": "filled", "k": "filled", "v": "filled"}
    done = fmha("tune", *row)
    assert (done.code, done.out) == (2, "")
    assert "  = help: --bias-file filled\n" in done.err
    Path("p.txt").write_text("-s 8 --sink-logits b.npy", "utf-8")
    done = fmha("sweep", "--problems", "p.txt")
    assert (done.code, done.err.partition(":")[0]) == (2, "error[P023]")
