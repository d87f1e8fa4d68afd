"""Plain CUDA kernels, compiled by NVRTC and by clang, against numpy: code that neither this project's emitters nor CUTLASS wrote."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.plain_building import COMPILERS, ptx
from fmha_nvptx_emu_tests.support.plain_cases import LAUNCHES
from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch

SEEDS = 3


def run(
    compiler: str, arch: str, name: str, seed: int, change: tuple[str, str] | None = None
) -> tuple[Seen, list[int]]:
    """What a launch left, and how many elements of each output differ from numpy's.

    Args:
        change: text of the PTX and what takes its place: a planted fault.
    """
    made = LAUNCHES[name](np.random.default_rng([seed, zlib.crc32(name.encode())]))
    text = ptx(compiler, arch)
    if change is not None:
        assert change[0] in text
        text = text.replace(*change)
    arguments = tuple(a.copy() for a in made.arguments)
    seen = launch(text, *arguments, grid=(made.blocks, 1, 1), block=(made.threads, 1, 1), kernel=name, seed=seed)
    outputs = arguments[len(arguments) - len(made.wanted) :]
    return seen, [int((got != wanted).sum()) for got, wanted in zip(outputs, made.wanted, strict=True)]


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@pytest.mark.parametrize("name", LAUNCHES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_kernel_agrees_with_numpy(compiler: str, name: str) -> None:
    for seed in range(SEEDS):
        seen, different = run(compiler, "sm_80", name, seed)
        assert seen.fault is None, seen.fault
        assert not seen.findings, seen.findings
        assert not any(different), different


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("arch", ["sm_75", "sm_89", "sm_90", "sm_120"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_kernels_of_other_architectures_agree_with_numpy(compiler: str, arch: str) -> None:
    """The text of an architecture uses its own instructions. sm_75 has no tensor core of this shape."""
    for name in LAUNCHES:
        if arch == "sm_75" and name == "tensor_core":
            continue
        seen, different = run(compiler, arch, name, 0)
        assert (name, seen.fault, seen.findings, sum(different)) == (name, None, [], 0)


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_barrier_that_is_left_out_is_found(compiler: str) -> None:
    seen, _ = run(compiler, "sm_80", "transpose", 0, ("bar.sync", "// bar.sync"))
    assert "shared-race" in seen.kinds
