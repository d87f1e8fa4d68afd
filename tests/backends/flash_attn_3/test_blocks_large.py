"""Our launches equal upstream's for more kernels than CI compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.codegen.flash_attn_3.instance import forward_instance
from tests.backends.flash_attn_3.test_blocks import compared, kernels
from tests.support.referees.flash_attn_3.program import block_programs

pytestmark = pytest.mark.slow

MORE = (
    "64, 64, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, false, false, false, false, false, false",
    "96, 96, 1, cutlass::half_t, cutlass::half_t, false, true, true, false, false, false, false, false, false",
    "192, 128, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, true, false, false, false, false, true, false",
    "64, 512, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, false, false, false, true, false, false",
    "64, 512, 1, cutlass::half_t, cutlass::half_t, false, false, false, true, true, false, true, true, true",
    "64, 512, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, true, true, true, true, true, false",
    "64, 512, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, false, true, true, false, false, false, true, true, false",
    "64, 256, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, false, false, false, true, false, false, true, true, false",
    "64, 256, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, false, false, false, false, false, false, true, true, true",
)
"""Softcap, with a window and with packed query heads; the kernel that is soonest compiled; V inside K."""


def test_more_launches_are_upstreams(shared_cache: Path) -> None:
    every = kernels(MORE)
    programs = block_programs(shared_cache, tuple(map(forward_instance, every)))
    for kernel in every:
        found = compared(programs[forward_instance(kernel).template_id], kernel, 300)
        assert not found, "\n".join(found[:20])
