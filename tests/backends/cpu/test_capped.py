"""Softcap by the form of tanh that holds near 0, and by the other where a score of the block is larger."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from tests.support.generators.cpu.cases import AttentionCase, Load, best_first, complaints, kernel_of, make_data, run

Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
NEAR = "return vtop(most) <= c.near.end;"
LOWER = "if (low) lower("
EDGE = "behind(last - x.left"
WINDOW = {"left": 250, "right": 30}


def wrong_rows(library: ctypes.CDLL, dtype: str, far: float, **mask: int) -> list[str]:
    """What is wrong where a cap of 1 presses scores of about 0.1, every third of which is ``far`` instead."""
    sizes: dict[str, Any] = {"heads": 1, "kv_heads": 1, "q_len": (70,), "k_len": (500,), "capacity": 500, "hdim": 32}
    case = AttentionCase(dtype, scale=1.0, softcap=1.0, **sizes, **mask)
    make_data(case, np.random.default_rng(5))
    q, k = case.data["q"], case.data["k"]
    q[...], k[...] = 0, np.float32(0.1) * k.astype(np.float32)
    q[..., 0] = 1
    k[..., ::3, 0] = far
    run(library, case)
    return complaints(case)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("far", [0.1, 0.5, 3.0, -0.5, -3.0, -200.0])
@pytest.mark.parametrize("arch", best_first(ARCHS))
def test_both_forms(arch: str, far: float, dtype: str, load: Load) -> None:
    assert wrong_rows(load(arch, dtype, "prefill"), dtype, far) == []
    assert wrong_rows(load(arch, dtype, "prefill"), dtype, far, **WINDOW) == []


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("right", "wrong", "far", "mask"),
    [
        (NEAR, "return true;", 1.5, {}),
        (NEAR, "return true;", -1.5, {}),
        (LOWER, "if (0) lower(", -1.5, {}),
        (EDGE, "behind(first - x.left", 0.1, WINDOW),
    ],
    ids=["above", "below", "no minimum", "edge of a window"],
)
def test_planted(right: str, wrong: str, far: float, mask: dict[str, int], build_text: Build) -> None:
    def planted(kernel: KernelSpec) -> str:
        text = emit(kernel)
        assert right in text
        return text.replace(right, wrong)

    library = build_text(kernel_of("x86_64_v4", "fp32", "prefill"), planted)
    assert wrong_rows(library, "fp32", 0.1) == []
    assert wrong_rows(library, "fp32", far, **mask) != []
