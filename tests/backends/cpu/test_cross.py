"""Other compilers (slow): clang++ and zig c++."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.backends.cpu.building import kernel_flags
from fmha_cli.codegen.cpu.emit import emit
from tests.support.builds.compilers import COMPILERS, command_of
from tests.support.generators.cpu.backward_cases import (
    DTYPES,
    backward_complaints,
    make_backward,
    random_backward,
    run_backward,
)
from tests.support.generators.cpu.cases import AttentionCase, complaints, kernel_of, make_data, random_case, run

pytestmark = pytest.mark.slow
OTHERS, KINDS = ("clang++", "zig"), ("prefill", "decode")


def cases(dtype: str, kind: str, count: int) -> list[AttentionCase]:
    out = []
    for seed in range(count):
        rng = np.random.default_rng([seed, 99])
        out.append(random_case(rng, dtype, few_rows=kind == "decode"))
        make_data(out[-1], rng)
    return out


def compiled(compiler: str, arch: str, dtype: str, kind: str, folder: Path) -> ctypes.CDLL:
    """The library of a kernel by another compiler. Skips the test if that or the architecture is not here."""
    if arch not in backend.probe().devices[0].archs:
        pytest.skip(f"this machine does not run {arch}")
    command = command_of(compiler)
    kernel = kernel_of(arch, dtype, kind)
    (folder / "k.cpp").write_text(emit(kernel))
    flags = kernel_flags(kernel, COMPILERS[compiler])
    subprocess.run([*command, *flags, "k.cpp", "-o", "k.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "k.so"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("compiler", OTHERS)
def test_compiler(compiler: str, arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    library = compiled(compiler, arch, dtype, kind, tmp_path)
    for case in cases(dtype, kind, 12):
        run(library, case)
        assert complaints(case) == [], case


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("compiler", OTHERS)
def test_backward_by_a_compiler(compiler: str, arch: str, dtype: str, tmp_path: Path) -> None:
    library = compiled(compiler, arch, dtype, "backward", tmp_path)
    for seed in range(12):
        rng = np.random.default_rng([seed, 99])
        case = random_backward(rng, dtype)
        make_backward(case, rng)
        run_backward(library, case)
        assert backward_complaints(case) == [], case
