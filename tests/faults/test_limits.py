"""Requests beyond this machine: too many threads, too large problems; and variables that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fmha_cli.cli.commands import known_options
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.errors import UsageError
from fmha_cli.run import protocol
from fmha_cli.run.request import Request
from tests.cli.conftest import Fmha
from tests.cli.test_commands import EVERY, SMALL

HUGE = ("--backend", "null", "--heads", "8", "--hdim", "128", "--dtype", "fp16")
WITHOUT = {"explain K012", "tune ls", "tune verify"}
"""Of these commands, other forms have threads."""

THREADED = [name for name in EVERY if "threads" in known_options()[EVERY[name][0]] and name not in WITHOUT]


@pytest.mark.promise("Impossible sizes and thread counts are refused first, and unknown variables are named.")
@pytest.mark.sampled(6, ci="all")
@pytest.mark.parametrize("name", THREADED)
@pytest.mark.parametrize("count", [999, "one more", "4m"])
def test_more_threads_than_cores_are_refused_at_once(fmha: Fmha, name: str, count: int | str) -> None:
    cores = usable_cores()
    text = str(cores + 1) if count == "one more" else str(count)
    done = fmha(*EVERY[name], "--threads", text)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[E002]: --threads ")
    assert f"this process may use {cores} core" in done.err
    assert f"= help: --threads {cores} or less" in done.err


def test_every_core_may_be_used(fmha: Fmha) -> None:
    assert {"run", "validate", "bench"} <= set(THREADED)
    assert Request(threads=usable_cores()).threads == usable_cores()
    with pytest.raises(UsageError):
        Request(threads=usable_cores() + 1)
    assert fmha("explain", *SMALL, FMHA_THREADS="999").code == 2
    assert fmha("plan", *SMALL, FMHA_THREADS="999").code == 0  # it has no threads


def forbidden(what: str) -> Callable[..., Any]:
    def act(*given: object, **more: object) -> Any:
        raise AssertionError(f"{what} began")

    return act


@pytest.mark.promise(
    "Impossible sizes and thread counts are refused first, and unknown variables are named.",
    "A row that does not fit into memory is refused before anything is allocated (M003).",
)
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("command", ["run", "validate", "bench"])
@pytest.mark.parametrize(
    "shape", ["--seqlen 10m", "--seqlen 1 --seqlen-k 1000m", "--batch 1m --seqlen 1k", "-s 10m --bias elementwise"]
)
def test_a_problem_beyond_the_memory_ends_before_anything_is_allocated(
    fmha: Fmha, monkeypatch: pytest.MonkeyPatch, command: str, shape: str
) -> None:
    monkeypatch.setattr(protocol, "available_bytes", lambda: 8 << 30)
    monkeypatch.setattr(protocol.os, "memfd_create", forbidden("the arena"))
    monkeypatch.setattr("fmha_cli.run.execute.fill", forbidden("the inputs"))
    done = fmha(command, *HUGE, *shape.split(), "--json", *(["--peak", "spec"] if command == "bench" else []))
    assert done.code == 6, done.err
    for record in done.document["records"]:
        assert record["verdict"] == "OUT_OF_MEMORY"
        (reason,) = record["reasons"]
        assert reason["id"] == "M003"
        assert re.search(r"at least [\d.,]+ [GT]iB are needed, 8\.00 GiB are available", reason["text"])


@pytest.mark.slow
@pytest.mark.ci
def test_the_other_rows_of_a_sweep_go_on(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "available_bytes", lambda: 8 << 30)
    done = fmha("run", *SMALL[:2], "--heads", "8", "--hdim", "128", "--seqlen", "32,10m,64", "--json")
    assert [r["verdict"] for r in done.document["records"]] == ["PASSED", "OUT_OF_MEMORY", "PASSED"]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("also", "verdict"), [((), "OUT_OF_MEMORY"), (("--no-check",), "UNCHECKED")])
def test_the_reference_counts(fmha: Fmha, monkeypatch: pytest.MonkeyPatch, also: tuple[str, ...], verdict: str) -> None:
    """16k keys of 128 + 128 float64 are 32 MiB; the tensors and their copies are 16 MiB."""
    monkeypatch.setattr(protocol, "available_bytes", lambda: 30 << 20)
    shape = ("--heads", "1", "--seqlen", "1", "--seqlen-k", "16k", "--hdim", "128")
    done = fmha("run", "--backend", "null", *shape, *also, "--json")
    assert [r["verdict"] for r in done.document["records"]] == [verdict]


def test_two_kernels_in_turns_need_two_arenas(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.test_commands import HONEST, SPLIT

    monkeypatch.setattr(protocol, "available_bytes", lambda: 8 << 30)
    done = fmha("bench", *HUGE, "--seqlen", "10m", "--ab", HONEST, SPLIT, "--peak", "spec", "--json")
    assert [r["verdict"] for r in done.document["records"]] == ["OUT_OF_MEMORY"] * 2


@pytest.mark.sampled(8, ci="all")
@pytest.mark.parametrize("command", ["run", "explain", "plan", "build"])
@pytest.mark.parametrize(
    "flags",
    [
        *(
            "--batch 2147483648",
            "--batch 9223372036854775808",
            "--batch 2m",
            "--seqlen 2048m",
            "--hdim 9223372036854775808",
        ),
        *(
            "--heads 2147483648",
            "--seqlens-q 3,99999999999",
            "--kv-cache linear --cache-seqlens 18446744073709551616 -s 1",
        ),
    ],
)
def test_sizes_that_nobody_can_describe_are_refused(fmha: Fmha, command: str, flags: str) -> None:
    done = fmha(command, "--backend", "null", *flags.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[P017]: --")
    assert "can be at most" in done.err


@pytest.mark.timeout(60)
def test_a_suggestion_takes_no_time(fmha: Fmha) -> None:
    done = fmha("explain", "--heads", "2147483647", "--kv-heads", "3")
    assert done.code == 2
    assert "--kv-heads one of 1, ..." in done.err


# -- variables ---------------------------------------------------------------------------------------------------------


@pytest.mark.promise("Impossible sizes and thread counts are refused first, and unknown variables are named.")
def test_a_variable_that_nothing_reads_is_named_in_one_line(fmha: Fmha) -> None:
    done = fmha("archs", "gfx942", "--json", FMHA_HDMI="3")
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith("warning: FMHA_HDMI is set, but nothing reads it: did you mean FMHA_HDIM")
    assert done.document["schema"] == "fmha.archs/1"
    assert "FMHA_XQZ" in fmha("archs", "gfx942", "-q", FMHA_XQZ="1").err


@pytest.mark.parametrize(
    "name",
    [
        "FMHA_HDIM",
        "FMHA_KV_HEADS",
        "FMHA_CXX",
        "FMHA_HIPCC",
        "FMHA_EMU_REPORT",
        "FMHA_NULL_PLACE",
        "FMHA_BUDGET",
        "FMHARM",
    ],
)
def test_variables_that_somebody_reads_are_silent(fmha: Fmha, name: str) -> None:
    assert fmha("archs", "gfx942", **{name: "1"}).err == ""


def test_an_empty_variable_is_unset(fmha: Fmha) -> None:
    assert fmha("archs", "gfx942", FMHA_HDMI="").err == ""


@pytest.mark.slow
@pytest.mark.ci
def test_doctor_does_not_call_them_ok(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_cli.cli.doctor.checkers_of", lambda backends: ())
    monkeypatch.setattr("fmha_cli.cli.doctor._backend", lambda call, name, found, named: _nothing(name))
    done = fmha("doctor", "--json", FMHA_HDMI="3", FMHA_THREADS="1")
    checks = {c["subject"]: c for c in done.document["checks"] if c["name"] == "variables"}
    assert checks["FMHA_HDMI"]["state"] == "failed"
    assert "FMHA_HDIM" in checks["FMHA_HDMI"]["help"]
    assert "FMHA_THREADS" in checks["FMHA_*"]["what"]
    assert "FMHA_HDMI" not in checks["FMHA_*"]["what"]


def _nothing(name: str) -> Any:
    from fmha_cli.domain.installation import CheckState, DoctorCheck

    return DoctorCheck(name="backend", subject=name, state=CheckState.SKIPPED, what="not tried")


def test_doctor_does_not_claim_that_fetching_is_forbidden(fmha: Fmha, tmp_path: Any) -> None:
    """A cache without sources: checks look at it and fetch nothing, which is not the user's --offline."""
    from fmha_cli.backends.ck_tile.checks import check_compilers, check_tree
    from fmha_cli.domain.installation import Surroundings

    here = Surroundings(cache_root=tmp_path / "cache", environ={}, options={}, notify=lambda text: None)
    said = [f"{c.what} {c.why} {c.help}" for check in (check_tree, check_compilers) for c in check(here)]
    assert said
    assert not [text for text in said if "--offline" in text or "forbidden" in text]
