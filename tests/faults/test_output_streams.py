"""Standard streams: closed, read in part, or given bytes that are not text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from tests.cli.conftest import Fmha
from tests.cli.test_commands import SMALL
from tests.support.generators.journals import keys_in
from tests.support.output_cases import FORMATS, PROGRAM, WRONG

SLOW = null_kernel(DType.FP16, Family.FWD, Behaviour.SLOW).digest[:16]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("closed", "code"), [("1", 4), ("2", 0), ("0", 0)])
def test_a_closed_standard_stream(tmp_path: Path, closed: str, code: int) -> None:
    script = f'"$0" -m fmha_cli archs --json {closed}>&-'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, check=False)
    assert done.returncode == code
    if closed == "1":
        assert done.stderr.startswith("error[X040]: stdout: cannot be written")
    else:
        assert json.loads(done.stdout)["schema"] == "fmha.archs/1"
        assert done.stderr == ""
    script = f'"$0" -m fmha_cli archs --json -o "$1" {closed}>&-'
    to_file = subprocess.run(
        ["sh", "-c", script, sys.executable, str(tmp_path / "x")], capture_output=True, check=False
    )
    assert to_file.returncode == 0
    assert json.loads((tmp_path / "x").read_text())["schema"] == "fmha.archs/1"


def test_talk_that_nobody_can_read_costs_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROGRAM, "archs", "--json", "-v"], stdout=subprocess.PIPE, stderr=write, check=False)
    os.close(write)
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "fmha.archs/1"


# -- a reader that goes away -------------------------------------------------------------------------------------------


def read_one_row(*argv: str) -> tuple[int, str, str]:
    """Close the pipe after the environment and a row, as ``| head -2`` does: exit code, the row, stderr."""
    process = subprocess.Popen([*PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["schema"] == "fmha.environment/1"
    line = process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    return process.wait(timeout=600), line, err


@pytest.mark.promise("An output that cannot be written is reported before any work, or costs no row later.")
@pytest.mark.slow
@pytest.mark.ci
def test_head_ends_a_stream_quietly_and_early(home: Path) -> None:
    sweep = ("run", *SMALL, "--dtype", "fp16", "--kernel", SLOW, "--softcap", "1:30:+1", "--jsonl")
    code, line, err = read_one_row(*sweep, "--journal", "rows.journal")
    assert (code, json.loads(line)["verdict"]) == (0, "PASSED")
    assert err == "30 problems (softcap x30)\n"
    assert len(keys_in(Path("rows.journal"))) < 20


def test_head_does_not_hide_what_was_wrong(home: Path) -> None:
    code, line, _ = read_one_row("run", *SMALL, "--dtype", "fp16", "--kernel", WRONG, "--softcap", "1:30:+1", "--jsonl")
    assert (code, json.loads(line)["verdict"]) == (1, "WRONG")


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("argv", [("--help",), ("run", "--help"), ("archs", "--json"), ("--version",)])
def test_a_pipe_closed_from_the_start(argv: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROGRAM, *argv], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


# -- bytes that are not text -----------------------------------------------------------------------------------------------


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("to_file", [False, True])
def test_lone_surrogates_are_printed_escaped(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str | None, to_file: bool
) -> None:
    from fmha_cli.domain.verdict import Verdict
    from fmha_cli.run.job import JobResult

    def crashed(*given: Any, **more: Any) -> JobResult:
        return JobResult(verdict=Verdict.CRASHED, note="the kernel said \udc80 and \ud83d", log_tail="\udcff")

    monkeypatch.setattr("fmha_cli.run.supervisor.Supervisor.run", crashed)
    target = ["-o", str(tmp_path / "x")] if to_file else []
    done = fmha("run", *SMALL, *([f"--{form}"] if form else []), *target)
    text = (tmp_path / "x").read_text("utf-8") if to_file else done.out
    assert done.code == 6, done.err
    assert "CRASHED" in text
    if form in ("json", "jsonl"):
        record = json.loads(text)["records"][0] if form == "json" else json.loads(text.splitlines()[1])
        assert any("the kernel said \udc80 and \ud83d" in note for note in record["notes"])
    if form == "csv":
        assert "\\udc80" in text


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    "argv", [("explain", "\udcff"), ("run", "--q", "\udcff.npy", "--json"), ("archs", "a\udc80", "--json")]
)
def test_arguments_that_are_no_text(home: Path, argv: tuple[str, ...]) -> None:
    done = subprocess.run([*PROGRAM, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error[")
    assert "\\udc" in done.stderr
    if "--json" in argv:
        assert json.loads(done.stdout)["error"]["exit_code"] == 2


def test_json_stays_json_in_a_narrow_encoding(home: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    argv = [*PROGRAM, "archs", "\u00e9\U0001f600\udcff", "--json"]
    done = subprocess.run(argv, capture_output=True, env=environ, check=False)
    assert done.returncode == 2
    assert "\u00e9\U0001f600\udcff" in json.loads(done.stdout.decode("ascii"))["error"]["what"]
