"""The texts of AVX-512 kernels on machines without AVX-512: vectors of 16 floats in software, seeded random problems."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.domain.kernel import KernelSpec
from tests.support.fakes.software_vectors import widest
from tests.support.generators.cpu.backward_cases import (
    backward_complaints,
    make_backward,
    random_backward,
    run_backward,
)
from tests.support.generators.cpu.cases import complaints, kernel_of, make_data, random_case, run

Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
PAIRS, HOST = "x86_64_v4_bf16", "generic"
KERNELS = [("x86_64_v4", "fp32"), (PAIRS, "bf16")]
"""fp32 with vectors of 16 floats, and pairs of bf16."""
PROBLEMS = 40

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ci,
    pytest.mark.skipif(PAIRS in detect().archs, reason="this machine runs these kernels themselves"),
]


@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize(("arch", "dtype"), KERNELS)
def test_forward(build_text: Build, arch: str, dtype: str, kind: str) -> None:
    kernel, text = widest(kernel_of(arch, dtype, kind), HOST)
    library = build_text(kernel, lambda _: text)
    for seed in range(PROBLEMS):
        rng = np.random.default_rng([seed, len(dtype), len(kind)])
        case = random_case(rng, dtype, few_rows=kind == "decode")
        make_data(case, rng)
        run(library, case)
        assert complaints(case) == [], f"seed {seed}: {case}"


@pytest.mark.parametrize(("arch", "dtype"), KERNELS)
def test_backward(build_text: Build, arch: str, dtype: str) -> None:
    kernel, text = widest(kernel_of(arch, dtype, "backward"), HOST)
    library = build_text(kernel, lambda _: text)
    for seed in range(PROBLEMS):
        rng = np.random.default_rng([seed, len(dtype)])
        case = random_backward(rng, dtype)
        make_backward(case, rng)
        run_backward(library, case)
        assert backward_complaints(case) == [], f"seed {seed}: {case}"


def test_a_wrong_product_is_seen(build_text: Build) -> None:
    """With one half of each pair left out, a problem fails."""
    kernel, text = widest(kernel_of(PAIRS, "bf16", "prefill"), HOST)
    half = "  return vfma((vf)(x << 16), (vf)(y << 16), acc);\n"
    assert half in text
    library = build_text(kernel, lambda _: text.replace(half, "  return acc;\n"))
    rng = np.random.default_rng([0, 4, 7])
    case = random_case(rng, "bf16", few_rows=False)
    make_data(case, rng)
    run(library, case)
    assert complaints(case) != []
