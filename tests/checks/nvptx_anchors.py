"""Execute Triton kernels that nobody here wrote on the PTX emulator: PyTorch's and the tutorials', compared with numpy.

Each kernel runs on two problems, the second ragged where the kernel can be, under three seeds, which choose both the data and the order of the
warps. Cases and compiling are those of the plugin's tests (``triton_anchors.py``). An error is the largest error of a row divided by the row's
norm, and must be below the case's budget. ``FMHA_TRITON_HOME`` names a checkout of triton-lang/triton at the pinned
commit; without it, the tutorials are left out.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from fmha_nvptx_emu_tests.support import attention_anchors, fla_anchors, pytorch_anchors, tutorial_anchors
from fmha_nvptx_emu_tests.support.triton_anchors import ARCHS, execute

from tests.checks.check import Check, Row, code

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class AnchorLaunch:
    """One launch of a kernel: compiled for an architecture, on its even or ragged problem, under a seed."""

    kernel: str
    arch: str
    ragged: bool
    seed: int

    @property
    def name(self) -> str:
        return f"{self.kernel}: {self.arch}, {'ragged' if self.ragged else 'even'}, seed {self.seed}"


def makers() -> dict[str, Any]:
    """The makers of launches by name: PyTorch's, and the tutorials' if there is a checkout."""
    found = pytorch_anchors.CASES | (fla_anchors.CASES if importlib.util.find_spec("fla") else {})
    return found | (
        tutorial_anchors.CASES | attention_anchors.CASES if os.environ.get(tutorial_anchors.VARIABLE) else {}
    )


def launches() -> Iterator[AnchorLaunch]:
    """Every kernel on every architecture."""
    return (AnchorLaunch(*one) for one in product(makers(), ARCHS, (False, True), SEEDS))


def rows_of(launch: AnchorLaunch) -> Iterator[Row]:
    """Compile, execute and judge one launch; no row if the kernel is not for this architecture."""
    case = makers()[launch.kernel](np.random.default_rng(launch.seed), launch.ragged, launch.arch)
    if launch.arch not in case.archs:
        return
    ran = execute(launch.arch, case, launch.seed)
    seen, kinds = ran.seen, dict(Counter(ran.seen.kinds))
    verdict = "FINDING" if kinds else "right" if ran.error < case.budget else "WRONG"
    yield {
        "arch": launch.arch,
        "name": launch.kernel,
        "kernel": case.kernel,
        "size": case.size,
        "ragged": case.ragged,
        "seed": launch.seed,
        "error": None if seen.fault is not None else ran.error,
        "budget": case.budget,
        "marks": ran.marks,
        "findings": kinds,
        "instructions": int(seen.executed.get("instructions", 0)),
        "verdict": verdict if seen.fault is None else f"STOPPED: {seen.fault}",
    }


def depends(launch: AnchorLaunch) -> object:
    """The compiler, where the kernels' text comes from, and the emulator."""
    versions = [importlib.metadata.version(name) for name in ("triton", "torch")]
    return [*versions, tutorial_anchors.COMMIT, code("plugins/fmha-nvptx-emu/src")]


CHECK = Check(
    cases=launches,
    name=lambda launch: launch.name,
    carry_out=rows_of,
    depends=depends,
    good=lambda row: row["verdict"] == "right",
    by=(lambda row: f"{row['name']}: {row['kernel']}", "verdict"),
)
