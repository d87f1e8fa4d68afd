"""Kernels of the build matrix compile with NVRTC alone, and ``inspect`` agrees with any installed NVIDIA tools."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import me_matrix
import pytest
from matrix_parts import build

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.shop import workshop
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cuda.probe import CudaKind

SIMT = re.compile("_f32_.*_sm75$")
"""Kernels without tensor cores."""
COUNTS = {"sm_75": 52, "sm_80": 55, "sm_86": 45, "sm_90": 55, "sm_100": 55, "sm_120": 45}


def test_the_list_has_every_kernel_that_nvrtc_compiles() -> None:
    rows = me_matrix.listed()
    kernels = me_matrix.kernels_of(rows, build_registry())
    assert Counter(row["arch"] for row in rows) == COUNTS
    assert len({kernel.digest for kernel in kernels}) == len(rows) == 307
    assert len({traits_of(kernel).name for kernel in kernels}) == 107
    assert [traits_of(kernel).name for kernel in kernels] == [row["kernel"] for row in rows]
    quick = me_matrix.listed(ci=True)
    assert [row["arch"] for row in quick] == list(me_matrix.CI)
    assert {row["family"] for row in quick} == {"fwd", "bwd_dq_dk_dv"}


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("arch", COUNTS)
def test_kernels_build_and_inspect_agrees(arch: str, shared_cache: Path) -> None:
    context = BuildContext(cache_root=shared_cache, jobs=len(os.sched_getaffinity(0)))
    shop = workshop(UPSTREAM, context)
    if shop.toolchain is None or shop.toolchain.kind is not CudaKind.NVRTC:
        pytest.skip(f"NVRTC does not work here: {shop.fault.why if shop.fault else 'nvcc would be used'}")
    try:
        shop.tree()
    except EnvironmentProblem as fault:
        pytest.skip(f"no sources of xformers: {fault.what}")
    registry, rows = build_registry(), me_matrix.listed([arch])
    kernels = me_matrix.kernels_of(rows, registry)
    built = build(kernels, registry, context)
    for entry, kernel in zip(rows, kernels, strict=True):
        row = me_matrix.row_of(entry, kernel, built[kernel.digest], registry)
        assert row["error"] is None, row["kernel"]
        assert row["disagreements"] == [], row["kernel"]
        assert row["unknown_instructions"] is None
        assert (row["matrix_instructions"] == 0) == bool(SIMT.search(row["kernel"]))
        assert row["spills_noted"]
        assert row["blocks_per_sm"] > 0
        known = row["memory_mib"] is not None  # unknown if the test process itself is larger
        assert not known or row["memory_mib"] < CubinBackend(UPSTREAM, False).compile_bytes(kernel) >> 20
