"""Kernels of the build matrix compile with NVRTC alone, and ``inspect`` agrees with any installed NVIDIA tools."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from me_matrix import CI, MATRIX

from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.discovery.registry import build_registry
from tests.support.builds.cuda_matrix import built_rows

SIMT = re.compile("_f32_.*_sm75$")
"""Kernels without tensor cores."""
COUNTS = {"sm_75": 52, "sm_80": 55, "sm_86": 45, "sm_90": 55, "sm_100": 55, "sm_120": 45}


def test_the_list_has_every_kernel_that_nvrtc_compiles() -> None:
    rows = MATRIX.listed([], False)
    kernels = MATRIX.kernels_of(rows, build_registry())
    assert Counter(row["arch"] for row in rows) == COUNTS
    assert len({kernel.digest for kernel in kernels}) == len(rows) == 307
    assert len({traits_of(kernel).name for kernel in kernels}) == 107
    assert [traits_of(kernel).name for kernel in kernels] == [row["kernel"] for row in rows]
    quick = MATRIX.listed([], True)
    assert [row["arch"] for row in quick] == list(CI)
    assert {row["family"] for row in quick} == {"fwd", "bwd_dq_dk_dv"}


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("arch", COUNTS)
def test_kernels_build_and_inspect_agrees(arch: str, shared_cache: Path) -> None:
    for row in built_rows(UPSTREAM, MATRIX, MATRIX.listed([arch], False), shared_cache):
        assert (row["matrix_instructions"] == 0) == bool(SIMT.search(row["kernel"]))
