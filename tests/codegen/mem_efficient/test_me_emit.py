"""The emitted CUDA text: pure, stable, plain ASCII, complete, and equal to the reviewed text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from me_golden import CHOSEN, DIGESTS, GOLDEN, digests, golden_kernels, own_text

from fmha_cli.backends.mem_efficient.catalogue import kernels
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.cuda import shared
from fmha_cli.codegen.flash_attn.emit import shims as flash_attn_shims
from fmha_cli.codegen.mem_efficient.emit import block_of, emit
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec

UPDATE = "python tests/codegen/mem_efficient/update_me_golden.py"
KERNELS = golden_kernels()


@pytest.mark.parametrize("name", KERNELS)
def test_texts_are_the_reviewed_ones(name: str) -> None:
    assert own_text(KERNELS[name]) == (GOLDEN / name).read_text("utf-8"), f"a wanted change? run {UPDATE}"


def test_whole_texts_are_the_reviewed_ones() -> None:
    assert digests() == json.loads((GOLDEN / DIGESTS).read_text("utf-8")), f"a wanted change? run {UPDATE}"
    assert {path.name for path in GOLDEN.glob("*.cu")} == KERNELS.keys()
    assert len(KERNELS) == sum(map(len, CHOSEN.values())) == 4


@pytest.mark.parametrize("name", KERNELS)
def test_text_is_plain_and_has_one_kernel_by_upstreams_name(name: str) -> None:
    kernel = KERNELS[name]
    text, own = emit(kernel), traits_of(kernel).name
    assert text.isascii()
    assert text.endswith("};\n")
    assert "\t" not in text
    assert re.findall(r'extern "C" __global__ void __launch_bounds__\([^)]*\)\n(\w+)\(Params p\)', text) == [own]
    header = "kernel_forward.h" if kernel.family is Family.FWD else "kernel_backward.h"
    assert re.findall(r"#include <(\S+)>", text) == ["fmha_memeff.h", header]
    assert set(re.findall(rf"{own}_\w+", text)) == {f"{own}_{part}" for part in ("abi_table", "abi_names", "facts")}


@pytest.mark.parametrize("name", KERNELS)
def test_every_field_of_the_parameters_is_exported(name: str) -> None:
    text, names = emit(KERNELS[name]), [field for field, _ in c_fields(block_of(KERNELS[name]))]
    assert re.findall(r"^  FMHA_FIELD\((\w+)\)", text, re.MULTILINE) == names
    assert f'_abi_names[] = "{" ".join(names)}";' in text
    assert f"{{1, sizeof(Params), {len(names)}," in text
    (facts,) = re.findall(r"_facts\[\] = \{(.*), sizeof\(Kernel::SharedStorage\)\};", text)
    assert facts.split(", ") == [f"(uint32_t)Kernel::{fact}" for fact in traits_of(KERNELS[name]).facts]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_different_kernels_have_different_texts(arch: str) -> None:
    """The texts differ even without the names."""
    listed = list(kernels(load_arch(arch)))
    texts = {re.sub(r"fmha_cutlass\w+", "", emit(kernel).partition("\n")[2]) for kernel in listed}
    assert len(texts) == len(listed) > 50


def test_an_architecture_is_a_matter_of_flags() -> None:
    kernel = next(iter(KERNELS.values()))
    other = replace(kernel, arch="sm_90a")
    assert emit(kernel).partition("\n")[2] == emit(other).partition("\n")[2]
    assert emit(kernel) != emit(other)


def test_text_depends_on_the_kernel_alone() -> None:
    code = "import hashlib; from me_golden import digests; print(sorted(digests().items()))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent), "PATH": ""},
            cwd=str(GOLDEN),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_what_upstream_does_not_have_is_refused() -> None:
    kernel: KernelSpec = KERNELS["fmha_cutlassF_f32_aligned_32x128_gmem_sm80-sm_90.cu"]
    for other in (
        replace(kernel, algorithm=Algorithm()),
        replace(kernel, family=Family.BATCH_PREFILL),
        replace(kernel, signature=replace(kernel.signature, dtype=DType.FP8_E4M3)),
    ):
        with pytest.raises(InternalError, match="no memory-efficient kernel"):
            emit(other)


@pytest.mark.parametrize("name", ["common", "std"])
def test_shims_are_small_own_texts(name: str) -> None:
    files = [
        path for path in UPSTREAM.shim_folder(name).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert files
    for path in files:
        text = path.read_text("ascii")
        assert text.startswith("// "), path
        assert "#pragma once\n" in text, path
        assert len(text.splitlines()) <= 75, path
        assert "Copyright" not in text, path


def test_what_nvrtc_lacks_is_shared() -> None:
    assert UPSTREAM.shim_folder("nvrtc") == flash_attn_shims("nvrtc") == shared.shim_folder("nvrtc", "fmha_cli.cli")
    own = {path.name for name in ("common", "std") for path in UPSTREAM.shim_folder(name).rglob("*")}
    assert not own & {path.name for path in UPSTREAM.shim_folder("nvrtc").iterdir()}
