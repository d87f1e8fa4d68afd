"""The emitted CUDA text: pure, stable, plain ASCII, complete, and equal to the reviewed text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fmha_cli.backends.mem_efficient.catalogue import kernels
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen import cuda
from fmha_cli.codegen.flash_attn.emit import shims as flash_attn_shims
from fmha_cli.codegen.mem_efficient.emit import emit
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Algorithm, Family
from tests.support.golden.mem_efficient import CHOSEN, GOLDEN, KERNELS
from tests.support.golden.units import are_small_own_texts, texts_differ


def test_texts_are_the_reviewed_ones() -> None:
    GOLDEN.are_the_reviewed_ones()
    assert len(KERNELS) == sum(map(len, CHOSEN.values())) == 4


def test_texts_are_plain_and_have_one_kernel_by_upstreams_name() -> None:
    GOLDEN.are_plain(("fmha_memeff.h", "kernel_forward.h", "kernel_backward.h"))
    for kernel in KERNELS.values():
        header = "kernel_forward.h" if kernel.family is Family.FWD else "kernel_backward.h"
        assert re.findall(r"#include <(\S+)>", emit(kernel)) == ["fmha_memeff.h", header]


def test_every_field_of_the_parameters_and_every_fact_is_exported() -> None:
    GOLDEN.export_every_field()
    for kernel in KERNELS.values():
        (facts,) = re.findall(r"_facts\[\] = \{(.*), sizeof\(Kernel::SharedStorage\)\};", emit(kernel))
        assert facts.split(", ") == [f"(uint32_t)Kernel::{fact}" for fact in traits_of(kernel).facts]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_different_kernels_have_different_texts(arch: str) -> None:
    assert texts_differ(emit, kernels(load_arch(arch)), r"fmha_cutlass\w+") > 50


def test_an_architecture_is_a_matter_of_flags() -> None:
    GOLDEN.leave_the_architecture_to_flags()


def test_text_depends_on_the_kernel_alone() -> None:
    GOLDEN.depend_on_the_kernel_alone("tests.support.golden.mem_efficient")


def test_what_upstream_does_not_have_is_refused() -> None:
    kernel = KERNELS["fmha_cutlassF_f32_aligned_32x128_gmem_sm80-sm_90.cu"]
    for other in (
        replace(kernel, algorithm=Algorithm()),
        replace(kernel, family=Family.BATCH_PREFILL),
        replace(kernel, signature=replace(kernel.signature, dtype=DType.FP8_E4M3)),
    ):
        with pytest.raises(InternalError, match="no memory-efficient kernel"):
            emit(other)


@pytest.mark.parametrize("name", ["common", "std"])
def test_shims_are_small_own_texts(name: str) -> None:
    are_small_own_texts(UPSTREAM.shim_folder(name), 75)


def test_what_nvrtc_lacks_is_shared() -> None:
    assert UPSTREAM.shim_folder("nvrtc") == flash_attn_shims("nvrtc") == cuda.shim_folder("nvrtc", "fmha_cli.cli")
    own = {path.name for name in ("common", "std") for path in UPSTREAM.shim_folder(name).rglob("*")}
    assert not own & {path.name for path in UPSTREAM.shim_folder("nvrtc").iterdir()}
