"""Kernel libraries, compiled through the cache and called in a process with the stand-in runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.building import build_ck, workshop
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext
from tests.support.fakes.hip_recorder import build_standin
from tests.support.paths import ROOT

CHILD = "tests.support.children.ck_tile.library"


def builds(cache_root: Path) -> BuildContext:
    """The toolchain for kernels; skips the test if nothing can be built for AMD GPUs."""
    found = BuildContext(cache_root=cache_root)
    try:
        workshop(found)
    except EnvironmentProblem as fault:
        pytest.skip(f"no HIP compiler or no sources: {fault}")
    return found


def ask(kernel: KernelSpec, context: BuildContext, calls: list[dict[str, Any]]) -> Any:
    """The answer of the kernel's library to each call; see ``children/ck_tile/library.py``."""
    paths = (build_standin(context).path, build_ck(Stage(kernel), context).path)
    done = subprocess.run(
        [sys.executable, "-m", CHILD, *map(str, paths)],
        input=json.dumps({"kernel": kernel.name, "calls": calls}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
