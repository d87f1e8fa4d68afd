"""Kernels of the build matrix compile with NVRTC alone, and ``inspect`` agrees with any installed NVIDIA tools."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from matrix_parts import build

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.shop import workshop
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cuda.probe import CudaKind

_SCRIPT = Path(__file__).parents[3] / "benchmarks" / "fa_matrix.py"
FAMILIES = {"fwd", "fwd_splitkv", "fwd_splitkv_combine", "bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"}
ARCHS = {"sm_80", "sm_86", "sm_90", "sm_100", "sm_120"}


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fa_matrix", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix = _loaded()


def test_the_list_covers_families_head_dims_features_and_architectures() -> None:
    rows = matrix.listed()
    kernels = matrix.kernels_of(rows, build_registry())
    assert len({kernel.digest for kernel in kernels}) == len(rows) >= 40
    assert {row["family"] for row in rows} == FAMILIES
    assert {row["arch"] for row in rows} == ARCHS | {"sm_90a"}
    each = Counter(kernel.family.value for kernel in kernels if kernel.arch in ARCHS)
    assert all(each[family] >= len(ARCHS) for family in FAMILIES)
    for family in ("fwd", "bwd_dq_dk_dv"):
        signatures = [kernel.signature for kernel in kernels if kernel.family.value == family]
        assert {s.dtype.value for s in signatures} == {"fp16", "bf16"}
        assert {s.hdim for s in signatures} == {32, 64, 96, 128, 192, 256}
        assert {s.mask.value for s in signatures} == {"none", "causal", "window"}
        assert {s.bias.value for s in signatures} == {"none", "alibi"}
        assert {s.softcap.value for s in signatures} == {s.dropout.value for s in signatures} == {"no", "yes"}
    splits = [kernel.signature for kernel in kernels if kernel.family.value == "fwd_splitkv"]
    assert {(s.split.value, s.append.value) for s in splits} == {
        ("no", "no"), ("no", "yes"), ("yes", "no"), ("yes", "yes")
    }  # fmt: skip
    quick = matrix.listed(ci=True)
    assert len(quick) == 3
    assert len({row["arch"] for row in quick}) == 3


def _built(rows: list[dict[str, Any]], cache: Path) -> list[dict[str, Any]]:
    context = BuildContext(cache_root=cache, jobs=len(os.sched_getaffinity(0)))
    shop = workshop(UPSTREAM, context)
    if shop.toolchain is None or shop.toolchain.kind is not CudaKind.NVRTC:
        pytest.skip(f"NVRTC does not work here: {shop.fault.why if shop.fault else 'nvcc would be used'}")
    try:
        shop.tree()
    except EnvironmentProblem as fault:
        pytest.skip(f"no sources of flash-attn: {fault.what}")
    registry = build_registry()
    kernels = matrix.kernels_of(rows, registry)
    built = build(kernels, registry, context)
    reckoned = [CubinBackend(UPSTREAM, False).compile_bytes(kernel) >> 20 for kernel in kernels]
    return [
        {**matrix.row_of(row, kernel, built[kernel.digest], registry), "reckoned_mib": mib}
        for row, kernel, mib in zip(rows, kernels, reckoned, strict=True)
    ]


def _judge(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["error"] is None, row["kernel"]
        assert row["disagreements"] == [], row["kernel"]
        assert 0 < row["gpr"] <= 255
        assert row["unknown_instructions"] is None
        assert (row["matrix_instructions"] > 0) == (row["family"] in ("fwd", "fwd_splitkv", "bwd_dq_dk_dv"))
        assert row["spills_noted"]
        assert row["blocks_per_sm"] > 0
        known = row["memory_mib"] is not None  # unknown if the test process itself is larger
        assert not known or row["memory_mib"] < row["reckoned_mib"], "more than the builds reckon with"


@pytest.mark.timeout(600)
def test_one_kernel(shared_cache: Path) -> None:
    _judge(_built(matrix.listed(ci=True)[:1], shared_cache))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_whole_matrix(shared_cache: Path) -> None:
    _judge(_built(matrix.listed(), shared_cache))
