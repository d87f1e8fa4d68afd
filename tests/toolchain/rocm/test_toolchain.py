"""Finding a HIP compiler that works: what is tried, reported and remembered."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, ExitCode
from fmha_cli.domain.installation import CheckState, Surroundings
from fmha_cli.toolchain import asking
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.notice import Notice
from fmha_cli.toolchain.rocm import candidates, probe
from fmha_cli.toolchain.rocm.candidates import RocmKind
from fmha_cli.toolchain.rocm.root import RocmParts, RocmSupply
from fmha_cli.toolchain.rocm.toolchain import check_compilers, find_rocm, survey_rocm
from tests.support.builds.rocm_here import say_nothing, toolchain_here

GOOD_VERSION = 'if [ "$1" = --version ]; then echo "clang version 22.0.0"; exit 0; fi\n'


def no_parts() -> RocmParts:
    raise EnvironmentProblem("no parts", code="S101", help="fetch them")


NO_PARTS = RocmSupply("none", no_parts)


@pytest.fixture(autouse=True)
def _no_installed_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "rocm_roots", lambda environ: [])


@pytest.fixture
def fake(tmp_path: Path, script: Any) -> Callable[[str, str], str]:
    """``fake(name, body)`` makes a compiler that is a shell script, and returns the PATH with it alone."""

    def make(name: str, body: str) -> str:
        (tmp_path / "bin").mkdir(exist_ok=True)
        script(tmp_path / "bin" / name, f'#!/bin/sh\necho "$*" >> "{tmp_path}/{name}.calls"\n{body}')
        return str(tmp_path / "bin")

    return make


def attempt(root: Path, path: str, said: list[Notice] | None = None, **environ: str) -> EnvironmentProblem:
    notify = said.append if said is not None else say_nothing
    with pytest.raises(EnvironmentProblem) as caught:
        find_rocm(root, parts=NO_PARTS, notify=notify, environ={"PATH": path, **environ})
    return caught.value


def test_none_at_all(tmp_path: Path) -> None:
    error = attempt(tmp_path / "cache", "/nonexistent")
    assert (error.code, error.exit_code) == ("B031", ExitCode.ENVIRONMENT)
    for word in ("clang-22", "lld-22", "llvm-22", "clang-tools-22", "dnf install", "FMHA_HIPCC"):
        assert word in (error.help or "")


BROKEN = {
    "silent": ("exit 0", "does not answer --version"),
    "failing": ("exit 3", "does not answer --version"),
    "old": ('echo "clang version 18.1.8"', "older than clang 19"),
    "gcc": ('echo "g++ (Debian) 12.2.0"', "older than clang 19"),
    "hanging": ("sleep 60", "does not answer --version"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_compilers_that_do_not_work(
    tmp_path: Path, fake: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(asking, "ASK_S", 1.0)
    body, fault = BROKEN[name]
    path = fake("clang++-22", f"PATH={os.environ['PATH']}\n{body}\n")
    said: list[Notice] = []
    error = attempt(tmp_path / "cache", path, said)
    assert error.code == "B031"
    assert fault in (error.why or "")
    assert "clang++-22" in said[0].text
    assert not list(open_root(tmp_path / "cache").tmp.glob("*"))


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path, fake: Callable[[str, str], str]) -> None:
    error = attempt(tmp_path / "cache", fake("clang++-22", GOOD_VERSION + "echo ld.lld"))
    assert "lld-22" in (error.help or "")


def test_a_compiler_asked_for_by_name_ends_the_search(tmp_path: Path, fake: Callable[[str, str], str]) -> None:
    fake("mine", "exit 1")
    path = fake("clang++-22", GOOD_VERSION)
    error = attempt(tmp_path / "cache", path, FMHA_HIPCC="mine")
    assert error.code == "B030"
    assert "mine" in error.what
    assert not (tmp_path / "clang++-22.calls").exists()
    error = attempt(tmp_path / "cache", path, FMHA_HIPCC="not-there")
    assert "there is no such program" in error.what


def test_parts_that_cannot_be_had_are_said_as_such(tmp_path: Path) -> None:
    clang = shutil.which("clang++-22") or pytest.skip("there is no clang++-22")
    error = attempt(tmp_path / "cache", "/nonexistent", FMHA_HIPCC=str(clang))
    assert error.code == "S101"


def counted(tmp_path: Path, script: Any, real: Path) -> Path:
    """A wrapper around the real compiler that counts its starts and can be changed."""
    wrapper: Path = script(
        tmp_path / "hipcc-counted", f'#!/bin/sh\necho "$*" >> "{tmp_path}/calls"\nexec "{real}" "$@"\n'
    )
    return wrapper


@pytest.mark.slow
@pytest.mark.ci
def test_a_real_one_is_proven_once(tmp_path: Path, shared_cache: Path, script: Any) -> None:
    real = toolchain_here(shared_cache)
    if real.kind is not RocmKind.CLANG:
        pytest.skip("this machine has a ROCm")
    wrapper = counted(tmp_path, script, Path(real.argv0[0]))
    parts = RocmParts(
        real.rocm_path / "include",
        *(real.rocm_path / "amdgcn/bitcode" / f"{n}.bc" for n in ("ocml", "ockl")),
        "7.1.25424",
        "x",
    )
    asked: list[int] = []

    def get() -> RocmParts:
        asked.append(1)
        return parts

    def find() -> Any:
        environ = {**os.environ, "FMHA_HIPCC": str(wrapper)}
        return find_rocm(tmp_path / "cache", parts=RocmSupply("x", get), notify=say_nothing, environ=environ)

    first = find()
    starts = len((tmp_path / "calls").read_text().splitlines())
    assert first.kind is RocmKind.CLANG
    assert first.rocm_path.parent == open_root(tmp_path / "cache").toolchains
    assert first.headers_digest == real.headers_digest, "it depends on the place of the cache"
    assert first.options == real.options
    assert first.archs == real.archs
    assert {"gfx90a", "gfx942", "gfx1201"} <= set(first.archs)
    assert first.hip_version == real.hip_version
    assert find() == first
    assert len((tmp_path / "calls").read_text().splitlines()) == starts
    assert asked == [1]

    # A root that somebody changed is made and tested again.
    (first.rocm_path / "include" / "hip" / "hip_version.h").write_text("#error changed")
    assert find() == first
    assert "changed" not in (first.rocm_path / "include" / "hip" / "hip_version.h").read_text()
    assert not list(open_root(tmp_path / "cache").tmp.glob("*"))


def test_the_version_of_hip_is_what_its_header_says(tmp_path: Path) -> None:
    header = tmp_path / "hip_version.h"
    header.write_text("".join(f"#define HIP_VERSION_{n} {v}\n" for n, v in (("MAJOR", 7), ("MINOR", 1), ("PATCH", 4))))
    assert probe._hip_version([tmp_path / "hip_runtime.h", header]) == "7.1.4"


def test_a_survey_ends_with_the_first_that_works(tmp_path: Path, fake: Callable[[str, str], str]) -> None:
    path = fake("clang++-99", "exit 1")
    found = survey_rocm(tmp_path / "cache", parts=NO_PARTS, notify=say_nothing, environ={"PATH": path})
    assert [(f.toolchain, f.fault) for f in found] == [(None, "does not answer --version")]


def test_doctor_names_a_rocm_without_a_compiler(tmp_path: Path) -> None:
    """Wheels to run programs have the runtime alone, and its numbered name alone."""
    core, whole, nothing = tmp_path / "core", tmp_path / "whole", tmp_path / "nothing"
    for root in (core, whole):
        (root / "lib").mkdir(parents=True)
        (root / "lib" / "libamdhip64.so.7").write_text("")
    (whole / "include" / "hip").mkdir(parents=True)
    (whole / "include" / "hip" / "hip_version.h").write_text("")

    def said(**named: str) -> dict[str, str]:
        environ = {"PATH": "/nonexistent", **named}
        here = Surroundings(cache_root=tmp_path / "cache", environ=environ, options={}, notify=lambda text: None)
        found = list(check_compilers(here, NO_PARTS))
        assert {check.state for check in found} == {CheckState.SKIPPED}
        return {check.subject: check.what for check in found}

    assert said(ROCM_PATH=str(core))[str(core)] == "this ROCm has no headers and no compiler"
    assert said(HIP_PATH=str(whole))[str(whole)] == "this ROCm has no compiler"
    assert said(HIP_PATH=str(nothing))[str(nothing)] == "there is no ROCm"
