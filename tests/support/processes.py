"""Runs ``fmha`` in separate processes, with a plugin installed only for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import fmha_cli
from fmha_cli import api

CHECKOUT = Path(fmha_cli.__file__).parents[1]


def installed(folder: Path) -> dict[str, str]:
    """Install the plugin of ``rows_plugin`` into a folder and return the environment in which ``fmha`` finds it."""
    metadata = folder / "fmha_rows-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fmha-rows\nVersion: 1\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[fmha]\nrows = tests.support.fakes.rows_plugin\n", "utf-8")
    return environment(folder)


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """An environment that adds folders to the import path, the checkout last."""
    path = os.pathsep.join(map(str, (*folders, CHECKOUT)))
    return {**os.environ, "PYTHONPATH": path, **variables}


def start(*argv: str, env: Mapping[str, str], cwd: Path) -> subprocess.Popen[str]:
    """Start ``fmha ARGV``; both streams are pipes."""
    words = [sys.executable, "-m", "fmha_cli", *argv]
    return subprocess.Popen(
        words, env=env, cwd=cwd, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """The exit code, stdout and stderr."""
    out, err = process.communicate()
    return process.returncode, out, err


def two_kernels(problem: api.Problem) -> dict[str, str]:
    """FIRST and SECOND for command lines that compare two: digests of the two best kernels of the CPU for a problem."""
    fitting = [found.kernel.digest[:12] for found in api.explain(problem, backend="cpu").supported]
    return dict(zip(("FIRST", "SECOND"), fitting, strict=False))
