"""Acceptance 6 through the command line: many cold processes that request one kernel compile it once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.find import find_toolchain
from tests.support.processes import environment, finished, start

MANY, FEW = (13, 3), (2, 2)
"""How many processes build the kernel, and how many run it."""
PROBLEM = ("-s", "33", "-H", "2", "-d", "16", "--dtype", "fp32", "--backend", "cpu", "--arch", "generic")

WRAPPER = """#!/bin/sh
case " $* " in *" -shared "*)
  for word in "$@"; do
    case "$word" in *.cpp) head -n 1 "$word" >> '{log}' ;; esac
  done ;;
esac
exec {compiler} "$@" -O0
"""
"""Calls the compiler and logs the first line of each library's source, which names the kernel. Nobody looks at the speed of what it makes."""


@pytest.fixture
def counted(tmp_path: Path, shared_cache: Path) -> tuple[dict[str, str], Path]:
    """An environment with an empty cache and a counting compiler, and the file that holds the count."""
    toolchain = find_toolchain(Cache(shared_cache, lambda notice: None).layout, lambda notice: None)
    log, wrapper, root = tmp_path / "compiled", tmp_path / "c++", tmp_path / "cache"
    wrapper.write_text(WRAPPER.format(log=log, compiler=toolchain.identity), "utf-8")
    wrapper.chmod(0o755)
    open_root(root)
    return environment(FMHA_CXX=str(wrapper), FMHA_CACHE_DIR=str(root)), log


@pytest.mark.parametrize(("builders", "runners"), [FEW, pytest.param(*MANY, marks=pytest.mark.slow)])
def test_cold_processes_compile_a_kernel_once(
    counted: tuple[dict[str, str], Path], tmp_path: Path, builders: int, runners: int
) -> None:
    env, log = counted
    started = [start("build", *PROBLEM, "--json", env=env, cwd=tmp_path) for _ in range(builders)]
    started += [start("run", *PROBLEM, "--json", env=env, cwd=tmp_path) for _ in range(runners)]
    answers = [finished(process) for process in started]
    assert [code for code, _, _ in answers] == [ExitCode.OK] * (builders + runners), answers
    documents = [json.loads(out) for _, out, _ in answers]
    builds = [document["builds"][0] for document in documents[:builders]]
    records = [document["records"][0] for document in documents[builders:]]
    assert {record["verdict"] for record in records} == {Verdict.PASSED.value}
    (kernel,) = {row["kernel"]["name"] for row in (*builds, *records)}
    assert len({build["artifact"]["sha256"] for build in builds}) == 1
    sources = log.read_text("utf-8").splitlines()
    assert sources.count(f"// {kernel}") == 1
    assert len(sources) == len(set(sources)), "the compiler is proven once, and the peak loops are built once"
