"""The emitted CUDA text: pure, stable, plain ASCII, complete, and equal to the reviewed text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.backends.flash_attn.catalogue import FAMILIES, kernels
from fmha_cli.codegen.flash_attn.emit import emit, shims
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Algorithm, Family
from tests.support.golden.flash_attn import GOLDEN, KERNELS
from tests.support.golden.units import are_small_own_texts, texts_differ


def test_texts_are_the_reviewed_ones() -> None:
    GOLDEN.are_the_reviewed_ones()


def test_every_family_is_there() -> None:
    assert {name.split("-")[0] for name in KERNELS} == {family.value for family in FAMILIES}


def test_texts_are_plain_and_have_one_kernel() -> None:
    GOLDEN.are_plain(
        (
            "fmha_fa2.h",
            "namespace_config.h",
            "flash.h",
            *(f"flash_{x}_kernel.h" for x in ("fwd", "bwd", "bwd_preprocess")),
        )
    )


def test_every_field_of_the_parameters_is_exported() -> None:
    GOLDEN.export_every_field()


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90a", "sm_120"])
def test_different_kernels_have_different_texts(arch: str) -> None:
    assert texts_differ(emit, kernels(load_arch(arch))) > 1000


def test_an_architecture_is_a_matter_of_flags() -> None:
    GOLDEN.leave_the_architecture_to_flags()


@pytest.mark.slow
@pytest.mark.ci
def test_text_depends_on_the_kernel_alone() -> None:
    GOLDEN.depend_on_the_kernel_alone("tests.support.golden.flash_attn")


def test_what_flashattention_does_not_have_is_refused() -> None:
    kernel = KERNELS["fwd-sm_90-d96.cu"]
    with pytest.raises(TypeError, match="not a FlashAttention kernel"):
        emit(replace(kernel, algorithm=Algorithm()))
    with pytest.raises(ValueError, match="has no kernel"):
        emit(replace(kernel, family=Family.BATCH_PREFILL))
    with pytest.raises(ValueError, match="has no kernel"):
        emit(replace(kernel, signature=replace(kernel.signature, dtype=DType.FP32)))


@pytest.mark.parametrize("name", ["common", "nvrtc"])
def test_shims_are_small_own_texts(name: str) -> None:
    are_small_own_texts(shims(name), 60)
