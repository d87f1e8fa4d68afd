"""The emitted CUDA text: pure, stable, plain ASCII, complete, and equal to the reviewed text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fa_golden import DIGESTS, GOLDEN, digests, golden_kernels, own_text

from fmha_cli.backends.flash_attn.catalogue import FAMILIES, kernels
from fmha_cli.codegen.flash_attn.emit import emit, shims
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec

UPDATE = "python tests/codegen/flash_attn/update_fa_golden.py"
KERNELS = golden_kernels()


@pytest.mark.parametrize("name", KERNELS)
def test_texts_are_the_reviewed_ones(name: str) -> None:
    assert own_text(KERNELS[name]) == (GOLDEN / name).read_text("utf-8"), f"a wanted change? run {UPDATE}"


def test_whole_texts_are_the_reviewed_ones() -> None:
    assert digests() == json.loads((GOLDEN / DIGESTS).read_text("utf-8")), f"a wanted change? run {UPDATE}"


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.glob("*.cu")} == KERNELS.keys()


def test_every_family_is_there() -> None:
    assert {name.split("-")[0] for name in KERNELS} == {family.value for family in FAMILIES}


@pytest.mark.parametrize("name", KERNELS)
def test_text_is_plain(name: str) -> None:
    text = emit(KERNELS[name])
    assert text.isascii()
    assert text.endswith("};\n")
    assert "\t" not in text
    assert text.count('extern "C" __global__ void fmha_fa2(') == 1
    assert set(re.findall(r"#include (\S+)", text)) <= {
        "<fmha_fa2.h>", "<namespace_config.h>", "<flash.h>", "<flash_fwd_kernel.h>", "<flash_bwd_kernel.h>",
        "<flash_bwd_preprocess_kernel.h>",
    }  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_every_field_of_the_parameters_is_exported(name: str) -> None:
    text, fields = emit(KERNELS[name]), [field for field, _ in c_fields(instance_of(KERNELS[name]).block)]
    assert re.findall(r"^  FMHA_FIELD\((\w+)\)", text, re.MULTILINE) == fields
    assert f'fmha_fa2_abi_names[] = "{" ".join(fields)}";' in text
    assert f"{{1, sizeof(Params), {len(fields)}," in text


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90a", "sm_120"])
def test_different_kernels_have_different_texts(arch: str) -> None:
    """The texts differ even without the names, so no kernel field is left to run time by mistake."""
    listed = list(kernels(load_arch(arch)))
    texts = {emit(kernel).partition("\n")[2] for kernel in listed}
    assert len(texts) == len(listed) > 1000


def test_an_architecture_is_a_matter_of_flags() -> None:
    kernel = next(iter(KERNELS.values()))
    other = replace(kernel, arch="sm_90a")
    assert emit(kernel).partition("\n")[2] == emit(other).partition("\n")[2]
    assert emit(kernel) != emit(other)


def test_text_depends_on_the_kernel_alone() -> None:
    code = (
        "import hashlib; from fa_golden import golden_kernels, emit\n"
        "print(hashlib.sha256(''.join(emit(k) for k in golden_kernels().values()).encode()).hexdigest())"
    )
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


def test_what_flashattention_does_not_have_is_refused() -> None:
    kernel: KernelSpec = KERNELS["fwd-sm_90-d96.cu"]
    with pytest.raises(TypeError, match="not a FlashAttention kernel"):
        emit(replace(kernel, algorithm=Algorithm()))
    with pytest.raises(ValueError, match="has no kernel"):
        emit(replace(kernel, family=Family.BATCH_PREFILL))
    with pytest.raises(ValueError, match="has no kernel"):
        emit(replace(kernel, signature=replace(kernel.signature, dtype=DType.FP32)))


@pytest.mark.parametrize("name", ["common", "nvrtc"])
def test_shims_are_small_own_texts(name: str) -> None:
    files = [path for path in shims(name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    for path in files:
        text = path.read_text("ascii")
        assert text.startswith("// "), path
        assert "#pragma once\n" in text, path
        assert len(text.splitlines()) <= 60, path
        assert "Copyright" not in text, path
