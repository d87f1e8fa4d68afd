"""Kernels of the check ``ck_builds`` compile with a real compiler, and ``inspect`` agrees with LLVM's tools on each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.backends.ck_tile.building import workshop
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import BuildContext
from tests.checks.ck_builds import BACKEND, kernel_of, referee
from tests.checks.kernel_builds import KernelBuild, build, listed, row_of

pytestmark = pytest.mark.promise("GPU backends list upstream's kernels and choose among them as upstream does.")

FAMILIES = 9
IN_DEFAULT = ("gfx942", "bwd_dot_do_o", "fmha_bwd_dot_do_o_d128_bf16_b64_group_o2_ps_gfx9")
"""A kernel that tests of the same suite need too, and that takes a third of a forward kernel's time to compile."""
IN_CI = (
    (
        "gfx1201",
        "fwd",
        "fmha_fwd_d64_fp16_batch_b64x64x32x64x32x64_r4x1x1_r4x1x1_w16x16x16_w16x16x16_qr_vr_psskddv_nlogits_nbias_nmask_"
        "nlse_dropout_nskip_nsquant_ntrload_gfx12",
    ),
    ("gfx90a", "fwd_splitkv_combine", "fmha_fwd_splitkv_combine_d128_fp16_batch_b32_unused_ps_nlse_nsquant_gfx9"),
)
"""Kernels that CI adds: 40 seconds of processor time each. Other tests of CI need them too."""
ARCHS = {"gfx90a", "gfx942", "gfx950", "gfx1201"}


def test_the_list_covers_families_and_architectures() -> None:
    cases = listed(BACKEND)
    kernels = [kernel_of(case, build_registry()) for case in cases]
    assert len({kernel.digest for kernel in kernels}) == len(cases) >= 36
    assert {case.arch for case in cases} == ARCHS
    assert len({case.family for case in cases}) == FAMILIES
    assert {case.arch for case in cases if case.ci} == ARCHS


def _built(cases: list[KernelBuild], cache: Path) -> list[dict[str, Any]]:
    context = BuildContext(cache_root=cache, jobs=len(os.sched_getaffinity(0)))
    if shutil.which("clang++") is None and not any(shutil.which(f"clang++-{n}") for n in range(19, 40)):
        pytest.skip("no clang is installed")
    try:
        workshop(context)
    except EnvironmentProblem as error:
        pytest.skip(f"no HIP compiler, or no sources: {error.what}")
    registry = build_registry()
    kernels = [kernel_of(case, registry) for case in cases]
    built = build(kernels, registry, context)
    reckoned = [CkTileBackend().compile_bytes(kernel) >> 20 for kernel in kernels]
    return [
        {**row_of(case, kernel, built[kernel.digest], registry, referee), "reckoned_mib": mib}
        for case, kernel, mib in zip(cases, kernels, reckoned, strict=True)
    ]


def _judge(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["error"] is None, row["kernel"]
        assert row["disagreements"] == [], row["kernel"]
        assert row["vgpr"] > 0
        multiplies = row["family"] in ("fwd", "fwd_splitkv", "fwd_pagedkv", "batch_prefill", "bwd_dq_dk_dv")
        assert (row["matrix_instructions"] > 0) == multiplies, row["kernel"]
        assert 0 < row["occupancy"] <= 16
        known = row["memory_mib"] is not None  # unknown if the test process itself is larger
        assert not known or row["memory_mib"] < row["reckoned_mib"], "more than the builds reckon with"


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    "wanted",
    [IN_DEFAULT, *(pytest.param(one, marks=(pytest.mark.slow, pytest.mark.ci)) for one in IN_CI)],
    ids=" ".join,
)
def test_a_kernel(shared_cache: Path, wanted: tuple[str, str, str]) -> None:
    arch, family, name = wanted
    _judge(_built([KernelBuild(BACKEND, arch, family, name, "")], shared_cache))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_whole_matrix(shared_cache: Path) -> None:
    _judge(_built(listed(BACKEND), shared_cache))
