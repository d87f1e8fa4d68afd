"""Weights too small for normal numbers: they are zeros while a launch works, and the caller's arithmetic keeps such numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from tests.support.generators.cpu.backward_cases import BackwardCase, backward_complaints, make_backward, run_backward
from tests.support.generators.cpu.cases import BEST, AttentionCase, Load, complaints, kernel_of, make_data, run

Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
FAR = {"heads": 4, "kv_heads": 4, "k_len": (900,), "capacity": 900, "hdim": 40, "hdim_v": 24, "alibi": 1, "threads": 1}
"""Far keys: with slopes up to a quarter, most weights of early keys are below 2^-126."""
PUT_BACK = "~Flush() { _mm_setcsr(old); }"


def keeps_tiny_numbers() -> bool:
    return bool(np.float32(2e-38) * np.float32(0.1) > 0)


def after(library: ctypes.CDLL, kind: str, dtype: str) -> tuple[list[str], bool]:
    """What is wrong with a launch's results, and whether its thread keeps tiny numbers. The thread ends with this call."""

    def launched() -> tuple[list[str], bool]:
        rng = np.random.default_rng(8)
        if kind == "backward":
            gradients = BackwardCase(dtype, q_len=(70,), **FAR)
            make_backward(gradients, rng)
            run_backward(library, gradients)
            kept = keeps_tiny_numbers()
            return backward_complaints(gradients), kept
        case = AttentionCase(dtype, q_len=(70 if kind == "prefill" else 2,), **FAR)
        make_data(case, rng)
        run(library, case)
        kept = keeps_tiny_numbers()
        return complaints(case), kept

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(launched).result()


@pytest.mark.promise("A CPU launch computes every tile once, and restores the caller's floating-point state.")
@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["prefill", "decode", "backward"])
def test_a_launch_leaves_its_caller_tiny_numbers(kind: str, dtype: str, load: Load) -> None:
    assert after(load(BEST, dtype, kind), kind, dtype) == ([], True)


@pytest.mark.promise("A CPU launch computes every tile once, and restores the caller's floating-point state.")
@pytest.mark.slow
@pytest.mark.ci
def test_planted_a_launch_that_does_not_put_them_back(build_text: Build) -> None:
    def planted(kernel: KernelSpec) -> str:
        text = emit(kernel)
        assert PUT_BACK in text
        return text.replace(PUT_BACK, "")

    library = build_text(kernel_of("x86_64_v4", "fp32", "prefill"), planted)
    assert after(library, "prefill", "fp32") == ([], False)
    assert keeps_tiny_numbers()
