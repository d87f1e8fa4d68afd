"""The emitted CUDA text: pure, stable, plain ASCII, complete, and equal to the reviewed text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import kernels
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn_3.backward_emit import headers
from fmha_cli.codegen.flash_attn_3.backward_instance import BACKWARD
from fmha_cli.codegen.flash_attn_3.emit import _COMBINE_HEADERS, _HEADERS, PREPARE, emit
from fmha_cli.codegen.flash_attn_3.instance import WRITTEN, instance_of
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Algorithm, Family
from tests.support.golden.flash_attn_3 import CHOSEN, GOLDEN, KERNELS
from tests.support.golden.units import are_small_own_texts, texts_differ


def test_texts_are_the_reviewed_ones() -> None:
    GOLDEN.are_the_reviewed_ones()
    assert len(KERNELS) == len(CHOSEN)


def test_texts_are_plain_and_have_one_kernel() -> None:
    backward = (instance_of(kernel) for kernel in KERNELS.values() if kernel.family in BACKWARD)
    own = {header for i in backward for header in headers(i)}  # type: ignore[arg-type]
    GOLDEN.are_plain({*own, *_HEADERS, *_COMBINE_HEADERS, "cutlass/fast_math.h", "cuda/std/climits", f'"{PREPARE}"'})


def test_every_field_of_the_parameters_is_exported() -> None:
    for name, kernel in KERNELS.items():
        text, fields = emit(kernel), [field.replace("__", ".") for field, _ in c_fields(GOLDEN.block_of(kernel))]
        assert re.findall(r"^  FMHA_FIELD\(([\w.]+)\)", text, re.MULTILINE) == fields, name
        assert f"{{1, sizeof(Params), {len(fields)}," in text, name


def test_different_kernels_have_different_texts() -> None:
    assert texts_differ(emit, kernels(load_arch("sm_90a"), WRITTEN), r"// .*") == 2934


def test_an_architecture_is_a_matter_of_flags() -> None:
    text = emit(KERNELS["combine.cu"]).partition("\n")[2]
    assert text == emit(replace(KERNELS["combine.cu"], arch="sm_90")).partition("\n")[2]


@pytest.mark.slow
@pytest.mark.ci
def test_text_depends_on_the_kernel_alone() -> None:
    GOLDEN.depend_on_the_kernel_alone("tests.support.golden.flash_attn_3")


def test_what_has_no_text_is_refused() -> None:
    kernel = KERNELS["combine.cu"]
    with pytest.raises(TypeError, match="is not a FlashAttention-3 kernel"):
        emit(replace(kernel, algorithm=Algorithm()))
    with pytest.raises(ValueError, match="no forward kernel"):
        emit(replace(kernel, family=Family.FWD_PAGEDKV))


def test_shims_are_small_own_texts() -> None:
    are_small_own_texts(UPSTREAM.shim_folder("common"), 75)
