"""The configurations of Triton's Gluon attention example: the data gives what upstream's function gave at every point."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton.choices import choice, reason

from fmha_cli import plugin

POINTS = json.loads(Path(__file__).with_name("gluon_points.json").read_text("utf-8"))["points"]


@pytest.mark.promise("Every Triton configuration was compiled for every architecture, and no figure is called tuned.")
def test_all_points_of_upstream_are_equal() -> None:
    """168 points: two architectures, three types, two head dims, two masks, seven lengths."""
    assert len(POINTS) == 168
    assert {point[0] for point in POINTS} == {"sm_100a", "sm_103a"}
    for arch, dtype, hdim, causal, length, *wanted in POINTS:
        found = choice(arch, plugin.DType(dtype), hdim, causal=causal, length=length)
        assert found is not None
        assert list(astuple(found)) == wanted, (arch, dtype, hdim, causal, length)


def test_a_row_holds_up_to_the_next_one() -> None:
    def buffers(length: int) -> int:
        found = choice("sm_103a", plugin.DType.FP16, 64, causal=False, length=length)
        assert found is not None
        return found.buffers

    assert [buffers(n) for n in (1, 1024, 2047, 2048, 100_000)] == [2, 2, 2, 6, 6]


def test_what_the_example_has_not_is_none() -> None:
    assert choice("sm_100a", plugin.DType.FP16, 256, causal=False, length=1024) is None
    assert choice("sm_90a", plugin.DType.FP16, 64, causal=False, length=1024) is None


@pytest.mark.promise("Every Triton configuration was compiled for every architecture, and no figure is called tuned.")
def test_the_reason_says_several_ctas_where_the_data_has_them() -> None:
    for _, dtype, hdim, causal, _, ctas, *_ in POINTS:
        assert reason(plugin.DType(dtype), hdim, causal=causal).startswith("multi-CTA") is (ctas > 1)
    assert reason(plugin.DType.FP16, 128, causal=False) == "multi-CTA: non-causal, d 128, 16 bits"
