"""Memory-efficient kernels of the check ``cuda_builds`` compile with NVRTC alone, and ``inspect`` agrees with any installed NVIDIA tools."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.discovery.registry import build_registry
from tests.checks.cuda_builds import CI, EFFICIENT, cases, kernel_of
from tests.checks.kernel_builds import KernelBuild
from tests.support.builds.cuda_matrix import built_rows

SIMT = re.compile("_f32_.*_sm75$")
"""Kernels without tensor cores."""
COUNTS = {"sm_75": 52, "sm_80": 55, "sm_86": 45, "sm_90": 55, "sm_100": 55, "sm_120": 45}


def listed() -> list[KernelBuild]:
    return [case for case in cases() if case.backend == EFFICIENT]


def test_the_list_has_every_kernel_that_nvrtc_compiles() -> None:
    every = listed()
    kernels = [kernel_of(case, build_registry()) for case in every]
    assert Counter(case.arch for case in every) == COUNTS
    assert len({kernel.digest for kernel in kernels}) == len(every) == 307
    assert len({traits_of(kernel).name for kernel in kernels}) == 107
    assert [traits_of(kernel).name for kernel in kernels] == [case.kernel for case in every]
    quick = [case for case in every if case.name.endswith(", in CI")]
    assert [case.arch for case in quick] == list(CI)
    assert {case.family for case in quick} == {"fwd", "bwd_dq_dk_dv"}


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("arch", COUNTS)
def test_kernels_build_and_inspect_agrees(arch: str, shared_cache: Path) -> None:
    for row in built_rows(UPSTREAM, [case for case in listed() if case.arch == arch], shared_cache):
        assert (row["matrix_instructions"] == 0) == bool(SIMT.search(row["kernel"]))
