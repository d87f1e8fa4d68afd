"""Which processor a test runs on does not decide whether it passes: the tests of the CPU once for each level of x86-64.

``FMHA_CPU_ARCH`` takes this processor for a lesser one. A level that it does not have is never executed: its kernels are compiled and
inspected, and its row is NOT_RUN.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli import api
from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.arch_detect import ARCHS, VARIABLE, cpu_flags, find_accepted
from fmha_cli.backends.cpu.building import build_cpu
from fmha_cli.backends.cpu.kernels import cpu_kernels
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import cpu_text, machine_here
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.verdict import Verdict
from tests.support.run_cache import NAME

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("x86_64_v3", "x86_64_v4", "x86_64_v4_bf16", "x86_64_amx")
FOLDERS = ("tests/backends/cpu", "tests/cli", "tests/run")
SOME = 15
"""Tests of CI's sample."""

HERE = find_accepted(cpu_flags(machine_here(), cpu_text()))
"""What this processor executes, whatever it is taken for."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(machine_here() != "x86_64", reason="not an x86 processor"),
]


def other_level() -> str:
    """The level that is furthest below this processor's own."""
    return "x86_64_v3" if HERE[0] in LEVELS[1:] else "generic"


def pass_tests(level: str, cache: Path, folders: tuple[str, ...], *words: str) -> None:
    """Run the tests of folders on this processor as one of a level, with the cache of this run."""
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *words, *folders]
    env = {**os.environ, VARIABLE: level, NAME: str(cache)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), done.stdout[-2000:]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("level", LEVELS)
def test_every_test_passes_on_every_level(level: str, folder: str, shared_cache: Path) -> None:
    if level not in HERE:
        pytest.skip(f"NOT_RUN: this processor executes no {level} kernels")
    pass_tests(level, shared_cache, (folder,))


@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_sample_passes_on_another_level(shared_cache: Path) -> None:
    one_process = ("-n", "0")  # collecting the tests takes each process longer than the sample
    pass_tests(other_level(), shared_cache, FOLDERS, *one_process, "--some", str(SOME))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level", LEVELS)
def test_a_level_that_is_not_here_is_compiled_and_not_run(
    level: str, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a processor that has the level, the same happens to one that is taken for a lesser one."""
    lesser = next(arch for arch in (*HERE[HERE.index(level) + 1 :], "generic")) if level in HERE else ""
    monkeypatch.setenv(VARIABLE, lesser)
    kernels = list(cpu_kernels(load_arch(level)))
    for kernel in kernels:
        compiled_and_inspected(kernel, shared_cache)
    (row,) = api.run(Problem.from_cli("-H 1 -s 32 -d 32 --dtype bf16"), arch=level)
    assert row.verdict is Verdict.NOT_RUN
    assert f"no device here accepts {level}" in " ".join(row.notes)


def compiled_and_inspected(kernel: KernelSpec, cache: Path) -> None:
    """Build a kernel and look at its code; it is not loaded."""
    artifact = build_cpu(Stage(kernel), BuildContext(cache_root=cache))
    seen = backend.inspect(kernel, artifact)
    if seen["why"] is None:
        assert sum(seen["instructions"].values()) > 100  # type: ignore[attr-defined]


def test_the_levels_are_those_of_x86() -> None:
    assert set(LEVELS) == {arch for arch in ARCHS if arch.startswith("x86_64")}
    assert other_level() != HERE[0]
