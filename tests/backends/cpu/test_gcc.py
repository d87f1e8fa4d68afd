"""Versions of GCC: those for which ``x86_intrinsics.h`` names parts of <immintrin.h>, and the oldest that compiles the kernels."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fmha_cli.backends.cpu.building import compile_flags
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.codegen.cpu.parts import source_text
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind
from tests.support.builds.compilers import kernels_run
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.cpu.cases import kernel_of

OLDEST = 11
KERNELS = [
    ("x86_64_v3", "fp32", "prefill"),
    ("x86_64_v4", "fp16", "backward"),
    ("x86_64_v4_bf16", "bf16", "decode"),
    ("x86_64_v4_bf16", "fp8_e4m3", "prefill"),
    ("x86_64_amx", "bf16", "prefill"),
]
PARTS = re.compile(r"^#if defined\(__clang__\).*$", re.MULTILINE)
"""The line that chooses between all of the header and its parts."""
LABEL = re.compile(r"\.L[A-Z]*\d+")
"""Numbered by what the compiler has read before."""

pytestmark = pytest.mark.skipif(machine_here() != "x86_64", reason="not an x86 machine")


def gcc(version: int) -> str:
    """The program of a version; skips the test where there is none."""
    found = shutil.which(f"g++-{version}")
    if found is None:
        pytest.skip(f"no g++-{version}")
    return found


def assembly(program: str, text: str, arch: str, folder: Path) -> str:
    (folder / "k.cpp").write_text(text)
    flags = [f for f in compile_flags(load_arch(arch), ToolchainKind.GCC) if f != "-shared"]
    command = [program, *flags, "-O0", "-S", "k.cpp", "-o", "k.s"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return LABEL.sub("label", (folder / "k.s").read_text())


def tried() -> list[int]:
    """The versions that get the parts."""
    low, high = re.findall(r"__GNUC__ [<>] (\d+)", PARTS.findall(source_text("x86_intrinsics.h"))[0])
    return [*range(int(low), int(high) + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "asked"),
    [
        # CI compares one kernel for each version, not the same one.
        pytest.param(
            version,
            asked,
            marks=[pytest.mark.ci] if asked == KERNELS[place % len(KERNELS)] else [],
            id="-".join((str(version), *asked)),
        )
        for place, version in enumerate(tried())
        for asked in KERNELS
    ],
)
def test_parts_of_the_header_make_the_kernel_of_all_of_it(
    version: int, asked: tuple[str, str, str], tmp_path: Path
) -> None:
    program, kernel = gcc(version), kernel_of(*asked)
    text = emit(kernel)
    whole = PARTS.sub("#if 1", text, count=1)
    assert whole != text
    assert assembly(program, text, kernel.arch, tmp_path) == assembly(program, whole, kernel.arch, tmp_path)


@pytest.mark.slow
@pytest.mark.ci
def test_kernels_of_every_kind_run_as_built_by_the_oldest(shared_cache: Path) -> None:
    assert tried()[0] == OLDEST
    assert len(kernels_run(gcc(OLDEST), WHOLE[0], "fp32", shared_cache)) == 6
