"""AArch64 kernels, executed under qemu-user: results on seeded random problems over the whole surface.

A small program for AArch64 loads a library as ``fmha build`` makes it, reads the argument block and the buffers, and calls the
kernel. It says nothing about speed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from arm_emulated import Emulator, emulator
from backward_cases import DTYPES, backward_arguments, backward_complaints, make_backward, random_backward
from cpu_cases import arguments, complaints, kernel_of, make_data, random_case

ARCHS = ("aarch64", "aarch64_bf16", "generic")
KINDS = ("prefill", "decode", "backward")
EACH, SAMPLE = 24, 3
SAMPLED = [
    *(("aarch64", "fp32", "prefill"), ("aarch64", "bf16", "decode"), ("aarch64", "fp16", "backward")),
    *(("aarch64_bf16", "bf16", "prefill"), ("aarch64_bf16", "bf16", "backward")),
]
"""Every kind, dtype and register tile, once."""


@pytest.fixture(scope="session")
def arm(shared_cache: Path) -> Emulator:
    return emulator(shared_cache)


def check(arm: Emulator, arch: str, dtype: str, kind: str, seeds: range, work: Path) -> None:
    kernel = kernel_of(arch, dtype, kind)
    library = arm.build(kernel)
    for seed in seeds:
        rng = np.random.default_rng([seed, len(arch), len(dtype), len(kind)])
        if kind == "backward":
            case = random_backward(rng, dtype)
            make_backward(case, rng)
            assert arm.run(kernel, library, backward_arguments(case), case.data, work) == 0
            found = backward_complaints(case)
        else:
            plain = random_case(rng, dtype, few_rows=kind == "decode")
            make_data(plain, rng)
            assert arm.run(kernel, library, arguments(plain), plain.data, work) == 0
            case, found = plain, complaints(plain)
        assert found == [], f"seed {seed}: {case}"


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(("arch", "dtype", "kind"), SAMPLED)
def test_sample(arm: Emulator, arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    check(arm, arch, dtype, kind, range(SAMPLE), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_many(arm: Emulator, arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    check(arm, arch, dtype, kind, range(1000, 1000 + EACH), tmp_path)
