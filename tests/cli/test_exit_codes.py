"""Every exit code of the contract, section 6, from a separate process, and of more cases from this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from tests.cli.conftest import Fmha
from tests.support.child_signals import hear_signals

PROGRAM = (sys.executable, "-m", "fmha_cli")
SMALL = ("--backend", "null", "--seqlen", "32", "--heads", "1", "--hdim", "32")


def kernel(behaviour: Behaviour) -> str:
    """The ``--kernel`` value of a null kernel."""
    return null_kernel(DType.FP16, Family.FWD, behaviour).digest[:16]


def fmha_process(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *argv], capture_output=True, text=True, check=False)


ROWS = [
    (0, ["run", *SMALL], "PASSED"),
    (0, ["run", *SMALL, "--no-check"], "UNCHECKED"),
    (1, ["run", *SMALL, "--kernel", kernel(Behaviour.NAN)], "WRONG"),
    (1, ["run", *SMALL, "--kernel", kernel(Behaviour.OOB_AFTER)], "OUT_OF_BOUNDS"),
    (1, ["validate", *SMALL, "--lse", "--kernel", kernel(Behaviour.NONDETERMINISTIC)], "NONDETERMINISTIC"),
    (1, ["run", *SMALL, "--scale", "1e9"], "MISTRUSTED"),
    (3, ["run", *SMALL, "--dropout", "0.5"], "UNSUPPORTED"),
    (6, ["run", *SMALL, "--kernel", kernel(Behaviour.SEGFAULT)], "CRASHED"),
    (6, ["run", *SMALL, "--kernel", kernel(Behaviour.BUILD_ERROR)], "BUILD_FAILED"),
    (6, ["run", *SMALL, "--kernel", kernel(Behaviour.HANG), "--timeout", "1"], "TIMED_OUT"),
]
ERRORS = [
    (2, ["run", "--sqelen", "4"]),
    (2, ["run", "--heads", "9", "--kv-heads", "4"]),
    (2, ["run", *SMALL, "--kernel", "00000000"]),
    (2, ["run", *SMALL, "--out", "o.npy", "--lse"]),
    (2, ["run", *SMALL, "--q", "missing.npy"]),
    (3, ["run", *SMALL, "--dropout", "0.5", "--kernel", kernel(Behaviour.HONEST)]),
    (4, ["run", "--backend", "null", "--device", "cuda:9"]),
    (4, ["run", "--device", "cuda:9"]),
    (2, ["run", *SMALL, "--csv"]),
    (5, ["list-kernels", "--filter", "dtype:fp64", "--backend", "null"]),
]


def firsts(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The first case of each code by default: a process takes most of a second to start."""
    often = {code: index for index, (code, *_) in reversed([*enumerate(cases)])}.values()
    return [pytest.param(*case, marks=[] if i in often else pytest.mark.slow) for i, case in enumerate(cases)]


@pytest.mark.promise(
    "Exit code 0: every requested row is good.",
    "Exit code 1: a row is WRONG, OUT_OF_BOUNDS, HAZARD, NONDETERMINISTIC or MISTRUSTED.",
)
@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(("code", "argv", "verdict"), firsts(ROWS))
def test_codes_of_rows(home: Path, code: int, argv: list[str], verdict: str) -> None:
    done = fmha_process(*argv, "--json")
    assert done.returncode == code, done.stderr
    verdicts_are(verdict, done.stdout)


@pytest.mark.parametrize(("code", "argv", "verdict"), ROWS)
def test_codes_of_rows_in_this_process(fmha: Fmha, code: int, argv: list[str], verdict: str) -> None:
    done = fmha(*argv, "--json")
    assert done.code == code, done.err
    verdicts_are(verdict, done.out)


def verdicts_are(verdict: str, out: str) -> None:
    document = json.loads(out)
    assert document["error"] is None
    assert [record["verdict"] for record in document["records"]] == [verdict]


@pytest.mark.promise("Exit code 2: a bad flag, a name that does not exist, or an impossible problem.")
@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(("code", "argv"), firsts(ERRORS))
def test_codes_of_errors(home: Path, code: int, argv: list[str]) -> None:
    done = fmha_process(*argv, "--json")
    assert done.returncode == code, done.stderr
    error_is(code, done.stdout, done.stderr)


@pytest.mark.parametrize(("code", "argv"), ERRORS)
def test_codes_of_errors_in_this_process(fmha: Fmha, code: int, argv: list[str]) -> None:
    done = fmha(*argv, "--json")
    assert done.code == code, done.err
    error_is(code, done.out, done.err)


def error_is(code: int, out: str, err: str) -> None:
    error = json.loads(out)["error"]
    assert error["exit_code"] == code
    assert err.startswith(f"error[{error['code']}]: {error['what']}")


@pytest.mark.promise("Exit code 70: an internal error, with a bug-report block.")
def test_70_is_a_bug(home: Path) -> None:
    script = (
        "import fmha_cli.domain.arch, sys; fmha_cli.domain.arch.arch_names = None; from fmha_cli.cli.app import main; "
    )
    script += "sys.argv = ['fmha', 'archs', '--json']; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (70, "")
    assert "please report it" in done.stderr


@pytest.mark.promise("Exit code 4: no such device, compiler or sources, or an output that cannot be written.")
@pytest.mark.slow
@pytest.mark.ci
def test_4_when_no_device_accepts_the_architecture(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Availability(state=State.NO_DEVICE, why="unplugged")
    monkeypatch.setattr("fmha_null.NullBackend.probe", lambda self: gone)
    done = fmha("run", *SMALL, "--arch", "null", "--json")
    assert done.code == 4
    assert [r["verdict"] for r in done.document["records"]] == ["NOT_RUN"]
    assert fmha("run", *SMALL, "--json").code == 4


@pytest.mark.promise("Exit code 3: no backend supports the problem; the smallest change that would work is named.")
@pytest.mark.slow
@pytest.mark.ci
def test_unsupported_does_not_count_in_a_mixed_sweep(fmha: Fmha) -> None:
    done = fmha("run", *SMALL, "--dropout", "0,0.5", "--json")
    assert done.code == 0
    assert [r["verdict"] for r in done.document["records"]] == ["PASSED", "UNSUPPORTED"]


def interrupted_after(rows: int, argv: Sequence[str], by: signal.Signals) -> tuple[int, list[Any], str]:
    """Send the signal after some rows of ``--jsonl``; returns (exit code, all rows, stderr)."""
    process = subprocess.Popen(
        [*PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["schema"] == "fmha.environment/1"
    lines = [process.stdout.readline() for _ in range(rows)]
    process.send_signal(by)
    out, err = process.communicate(timeout=600)
    return process.returncode, [json.loads(line) for line in (*lines, *out.splitlines())], err


@pytest.mark.promise("Exit code 130: interrupted; no row is lost, and the run can be resumed.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_130_loses_nothing_and_resumes(fmha: Fmha, by: signal.Signals) -> None:
    sweep = ("run", *SMALL, "--dtype", "fp16", "--softcap", "1:8:+1", "--kernel", kernel(Behaviour.SLOW), "--jsonl")
    code, rows, err = interrupted_after(2, (*sweep, "--journal", "rows.journal"), by)
    assert code == 130, err
    verdicts = [row["verdict"] for row in rows]
    assert len(rows) == 8
    assert verdicts[:2] == ["PASSED"] * 2
    assert verdicts[-1] == "NOT_RUN"
    assert "--resume rows.journal" in err
    done = fmha(*sweep, "--resume", "rows.journal")
    assert done.code == 0, done.err
    assert [json.loads(line)["verdict"] for line in done.out.splitlines()[1:]] == ["PASSED"] * 8


def test_a_read_only_home_runs_with_a_temporary_cache_and_a_warning(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FMHA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path and allowed(path, mode))
    done = fmha("run", "--backend", "null", "--seqlen", "32", "--heads", "1", "--hdim", "32")
    assert done.code == 0, done.err
    assert done.err.count("the default cache cannot be written; until the system empties it, kernels are kept in") == 1
    assert list(tmp_path.glob("fmha-cache-*/v*"))
