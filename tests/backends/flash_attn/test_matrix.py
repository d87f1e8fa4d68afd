"""FlashAttention-2's kernels of the check ``cuda_builds`` compile with NVRTC alone, and ``inspect`` agrees with any installed NVIDIA tools."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.discovery.registry import build_registry
from tests.checks.cuda_builds import FLASH, kernel_of
from tests.checks.kernel_builds import listed
from tests.support.builds.cuda_matrix import built_rows

FAMILIES = {"fwd", "fwd_splitkv", "fwd_splitkv_combine", "bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"}
ARCHS = {"sm_80", "sm_86", "sm_90", "sm_100", "sm_120"}


def test_the_list_covers_families_head_dims_features_and_architectures() -> None:
    cases = listed(FLASH)
    kernels = [kernel_of(case, build_registry()) for case in cases]
    assert len({kernel.digest for kernel in kernels}) == len(cases) >= 40
    assert {case.family for case in cases} == FAMILIES
    assert {case.arch for case in cases} == ARCHS | {"sm_90a"}
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
    quick = [case for case in cases if case.ci]
    assert len(quick) == 3
    assert len({case.arch for case in quick}) == 3


def _judge(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert (row["matrix_instructions"] > 0) == (row["family"] in ("fwd", "fwd_splitkv", "bwd_dq_dk_dv"))


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.ci
def test_one_kernel(shared_cache: Path) -> None:
    _judge(built_rows(UPSTREAM, [case for case in listed(FLASH) if case.ci][:1], shared_cache))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_whole_matrix(shared_cache: Path) -> None:
    _judge(built_rows(UPSTREAM, listed(FLASH), shared_cache))
