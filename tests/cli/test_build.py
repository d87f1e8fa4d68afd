"""``fmha build``: a problem or a set, what failed, and what nothing has to be built for."""

from __future__ import annotations

from pathlib import Path

import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from tests.cli.conftest import Fmha
from tests.cli.test_commands import HONEST, SMALL, faults_of


def test_build_takes_a_problem_or_a_set(fmha: Fmha) -> None:
    done = fmha("build", *SMALL, "--splits", "2", "--json")
    assert [b["kernel"]["family"] for b in done.document["builds"]] == ["fwd_splitkv", "fwd_splitkv_combine"]
    assert fmha("build", *SMALL, "--filter", "dtype:fp16").code == 2
    failing = null_kernel(DType.FP16, Family.FWD, Behaviour.BUILD_ERROR).digest
    done = fmha("build", "--backend", "null", "--filter", f"digest:{failing}", "--json")
    assert done.code == 6
    assert done.document["failed"] == 1
    assert fmha("build", *SMALL, "--dropout", "0.5").code == 3


def test_build_sums_up_what_failed(fmha: Fmha, home: Path) -> None:
    """If one kernel of a set does not compile, the rest is built; the summary and a second run name the log."""
    fresh = ("--cache-dir", str(home / "fresh"))
    good, bad = HONEST, null_kernel(DType.FP16, Family.FWD, Behaviour.BUILD_ERROR).digest
    argv = ("build", "--backend", "null", "--filter", f"digest:{good}*,digest:{bad}", *fresh)
    done = fmha(*argv, "--json")
    assert done.code == 6
    assert {k: done.document[k] for k in ("compiled", "cached", "failed", "refused", "not_run")} == {
        "compiled": 1,
        "cached": 0,
        "failed": 1,
        "refused": 0,
        "not_run": 0,
    }
    (failure,) = (b["error"] for b in done.document["builds"] if b["state"] == "failed")
    assert Path(failure["where"]).is_file()
    assert "1 of 2 kernels did not compile" in done.err
    last = done.err.strip().splitlines()[-3:]
    assert bad[:8] in last[0]
    assert last[1].strip() == "planted: behaviour build_error"
    assert last[2].strip() == f"log: {failure['where']}"
    assert "/2] failed: " in done.err
    assert "/2] compiled in" in done.err
    again = fmha(*argv)
    assert again.code == 6
    assert "compiled in" not in again.err
    assert "1 cached, 1 failed" in again.out
    assert fmha(*argv, "-q").err.splitlines()[0].startswith("warning: 1 of 2")


def test_a_build_of_nothing_but_cached_kernels_is_silent(fmha: Fmha, home: Path) -> None:
    argv = (
        "build",
        "--backend",
        "null",
        "--filter",
        "dtype:fp16,-behaviour:build_error",
        "--cache-dir",
        str(home / "c"),
    )
    assert fmha(*argv).code == 0
    again = fmha(*argv)
    assert again.code == 0
    assert again.err == ""
    assert "0 compiled" in again.out


def test_build_says_an_error_of_many_kernels_once(fmha: Fmha) -> None:
    """For a revision whose sources are missing, all rows are not run, one error covers them, and the exit code is 4."""
    argv = ("build", "--arch", "gfx1250", "--ck-rev", "2026-08", "--family", "fwd", "--filter", "hdim:64,dtype:fp16")
    done = fmha(*argv, "--json", FMHA_HIPCC="/nonexistent/clang++", FMHA_OFFLINE="1")
    assert done.code == 4
    assert faults_of(done.document) == []
    assert done.document["not_run"] == len(done.document["builds"]) > 20
    table = fmha(*argv, FMHA_HIPCC="/nonexistent/clang++", FMHA_OFFLINE="1").out
    assert table.count("error[") == 1
    assert f"{done.document['not_run']} not run" in table


def test_build_refuses_what_a_rule_refuses_without_a_compiler(fmha: Fmha) -> None:
    argv = ("build", "--arch", "gfx1201", "--profile", "receipt:2", "--family", "batch_prefill")
    done = fmha(*argv, "--json", FMHA_HIPCC="/nonexistent/clang++", FMHA_OFFLINE="1")
    assert done.code == 3
    assert done.document["refused"] == len(done.document["builds"]) > 20
    assert {build["error"]["code"][:2] for build in done.document["builds"]} == {"K2"}


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_that_is_named_alone_needs_no_problem(fmha: Fmha) -> None:
    listed = fmha("list-kernels", "--arch", "gfx942", "--filter", "digest:07bd55b1*", "--json")
    (kernel,) = listed.document["kernels"]
    done = fmha("build", "--arch", "gfx942", "--kernel", kernel["digest"][:8], "--dry-run", "--json")
    assert done.code == 0, done.err
    assert [row["name"] for row in done.document["kernels"]] == [kernel["name"]]
    assert kernel["signature"]["dtype"] == "bf16"  # the default of a problem is fp16
    other = fmha("build", "--arch", "gfx942", "--kernel", kernel["digest"][:8], "-s", "128", "--dry-run")
    assert (other.code, "K001" in other.err) == (3, True)
    assert fmha("build", "--arch", "gfx942", "--kernel", "0" * 8, "--dry-run").code == 2
