"""A release of a library in its own folder, and what a plugin's kernels answer with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from fmha_cli import api, plugin
from tests.support.paths import ROOT

CPU = plugin.DeviceFacts(id="cpu", archs=("generic",))


def kernels_for(backend: plugin.Backend, problem: api.Problem, words: str) -> Iterable[api.KernelSpec]:
    """The kernels whose name ends with these words (``op=gqa``, ``way=flash,masking=causal``), the ones that take a
    problem first.
    """
    for decision in sorted(backend.decide(problem, CPU), key=lambda decision: isinstance(decision, api.Unsupported)):
        kernel = decision.kernel
        if kernel is None or kernel.signature.dtype is not problem.dtype:
            continue
        if {*words.split(",")} <= {*kernel.name.rpartition(":")[2].split(",")}:
            yield kernel


RUN = """
import importlib, sys
from fmha_cli import api
from fmha_cli.toolchain import framework
from tests.support.builds.library_releases import kernels_for

framework.release_refusal = lambda *known: None  # rules about releases must not keep us from asking the library
plugin, root, *lines = sys.argv[1:]
(backend,) = importlib.import_module(plugin).fmha_register_backends()
for words, _, line in (line.partition(" ") for line in lines):
    problem = api.Problem.from_cli(line)
    kernel = next(iter(kernels_for(backend, problem, words)))
    (record,) = api.run(problem, backend=backend.name, device="cpu", kernel=kernel.name, cache_root=root)
    print(record.verdict.value, flush=True)
"""


def pip_install(folder: Path, *requirements: str, needs: bool = False) -> Path:
    """A folder with these packages, and what they need if ``needs``; skips the test if they cannot be installed here."""
    alone = [] if needs else ["--no-deps"]
    pip = [sys.executable, "-m", "pip", "install", "-q", *alone, "--target", str(folder), *requirements]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(requirements)} cannot be installed here: {done.stderr.strip()[-200:]}")
    return folder


def passed(plugin: str, library: Path, scratch: Path, lines: Iterable[str]) -> list[bool]:
    """Whether the kernel of each line, ``WORDS FLAGS``, passes with a release, whatever the rules say of that release."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, plugin, str(scratch / "cache"), *lines],
        env={
            "PYTHONPATH": f"{library}:{ROOT}",
            "PATH": "/usr/bin:/bin",
            "HOME": str(scratch),
            "FMHA_NO_STORE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [verdict == "PASSED" for verdict in done.stdout.split()]
