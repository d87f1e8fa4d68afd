"""``--emu-arith hardware``: a product and the sum behind it are one fma where ptxas makes them one."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from fmha_nvptx_emu_tests.support import mma_sums
from fmha_nvptx_emu_tests.support.ptx_machine import Array, launch, module
from tests.support.referees.cubins import tool

F32 = np.float32
BODY = """
mul.wide.u32 %rd1, %r0, 16;
add.u64 %rd2, %rd0, %rd1;
ld.global.f32 %f0, [%rd2];
ld.global.f32 %f1, [%rd2+4];
ld.global.f32 %f2, [%rd2+8];
{code}
st.global.f32 [%rd2+12], %f9;
"""
FUSED = {
    "sub": ("mul.f32 %f8, %f0, %f1;\nsub.f32 %f9, %f8, %f2;", lambda a, b, c: a * b - c),
    "sub of a product": ("mul.f32 %f8, %f0, %f1;\nsub.f32 %f9, %f2, %f8;", lambda a, b, c: c - a * b),
    "add, behind others": ("mul.f32 %f8, %f0, %f1;\nneg.f32 %f3, %f2;\nadd.f32 %f9, %f3, %f8;", lambda a, b, c: a * b - c),
    "a constant": ("mul.f32 %f8, %f0, 0f3FB8AA3B;\nsub.f32 %f9, %f8, %f2;", lambda a, b, c: a * np.float64(F32(1.442695)) - c),
    "ftz": ("mul.ftz.f32 %f8, %f0, %f1;\nsub.ftz.f32 %f9, %f8, %f2;", lambda a, b, c: a * b - c),
}  # fmt: skip
KEPT = {
    "the product is rounded": "mul.rn.f32 %f8, %f0, %f1;\nsub.f32 %f9, %f8, %f2;",
    "the sum is rounded": "mul.f32 %f8, %f0, %f1;\nsub.rn.f32 %f9, %f8, %f2;",
    "one flushes": "mul.ftz.f32 %f8, %f0, %f1;\nsub.f32 %f9, %f8, %f2;",
    "the product is read again": "mul.f32 %f8, %f0, %f1;\nsub.f32 %f9, %f8, %f2;\nadd.f32 %f7, %f8, %f8;",
    "a factor is written": "mul.f32 %f8, %f0, %f1;\nmov.f32 %f0, %f2;\nsub.f32 %f9, %f8, %f2;",
    "the product is its own factor": "mov.f32 %f8, %f0;\nmul.f32 %f8, %f8, %f1;\nsub.f32 %f9, %f8, %f2;",
    "a label": "mul.f32 %f8, %f0, %f1;\nbra NEXT;\nNEXT:\nsub.f32 %f9, %f8, %f2;",
    "a guard": "setp.eq.u32 %p1, %r0, %r0;\nmul.f32 %f8, %f0, %f1;\n@%p1 sub.f32 %f9, %f8, %f2;",
}


def numbers() -> Array:
    """Two factors, and what is close to their product: its rounding is most of the difference."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((32, 4), F32)
    rows[:, 2] = rows[:, 0] * rows[:, 1]
    return rows


def computed(code: str) -> tuple[Array, int]:
    rows = numbers()
    seen = launch(module(BODY.format(code=code)), rows)
    assert (seen.fault, seen.findings) == (None, [])
    return rows[:, 3], seen.executed["instructions"]


@pytest.mark.parametrize("name", FUSED)
def test_a_product_and_its_sum_are_rounded_once(name: str) -> None:
    code, formula = FUSED[name]
    twice, count = computed(code)
    with mma_sums.hardware():
        once, same = computed(code)
    a, b, c, _ = numbers().astype(np.float64).T
    np.testing.assert_array_equal(once, formula(a, b, c).astype(F32))  # float64 holds the product of two floats
    assert not np.array_equal(once, twice)
    assert count == same


@pytest.mark.parametrize("name", KEPT)
def test_what_is_rounded_twice_stays_so(name: str) -> None:
    twice, _ = computed(KEPT[name])
    with mma_sums.hardware():
        np.testing.assert_array_equal(computed(KEPT[name])[0], twice)
    product = (numbers()[:, 0] * numbers()[:, 1]).astype(F32)
    np.testing.assert_array_equal(twice, product - numbers()[:, 2])


def assembler() -> str | None:
    try:
        files = metadata.files("nvidia-cuda-nvcc") or []
    except metadata.PackageNotFoundError:
        files = []
    return shutil.which("ptxas") or next((str(file.locate()) for file in files if file.name == "ptxas"), None)


@pytest.mark.parametrize(
    "name", ["sub", "sub of a product", "add, behind others", "ftz", "the product is rounded", "the sum is rounded"]
)
def test_ptxas_does_the_same(name: str, tmp_path: Path) -> None:
    """What the emulator supposes of the assembler is asked of it."""
    code = FUSED[name][0] if name in FUSED else KEPT[name]
    tmp_path.joinpath("k.ptx").write_text(module(BODY.format(code=code)), "utf-8")
    ptxas, nvdisasm = assembler(), tool("nvdisasm")
    if ptxas is None or nvdisasm is None:
        pytest.skip("ptxas or nvdisasm is not installed (pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm)")
    subprocess.run([ptxas, "-arch=sm_80", "-o", "k.cubin", "k.ptx"], cwd=tmp_path, check=True)
    text = subprocess.run([nvdisasm, "-c", "k.cubin"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"\b(FFMA|FMUL|FADD)\b", text)
    assert found == (["FFMA"] if name in FUSED else ["FMUL", "FADD"])
