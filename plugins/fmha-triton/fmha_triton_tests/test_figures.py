"""The figures of ``fmha inspect`` about tensor memory: counted from PTX, and compared between kernels of one CTA and of two."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton.algorithm import Language
from fmha_triton.catalogue import algorithm_of, kernels_of
from fmha_triton.tensor_figures import tensor_memory_figures

from fmha_cli import api, plugin

PTX = """
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.init.shared::cta.b64 [%r2], 2;
    barrier.cluster.arrive.relaxed.aligned;
    @%p1 tcgen05.mma.cta_group::2.kind::f16 [ %r2 + 0 ], %rd142, %rd143, %r220, %p26;
    @%p1 tcgen05.mma.cta_group::2.kind::f16 [ %r4 + 0 ], [ %r2 + 0 ], %rd174, %r263, %p35;
    @%p1 tcgen05.mma.cta_group::2.kind::f16 [ %r4 + 0 ], [ %r2 + 8 ], %rd174, %r263, %p35;
    tcgen05.ld.sync.aligned.32x32b.x64.b32 {%r1}, [%r2];
    tcgen05.wait::ld.sync.aligned;
"""
"""One product with A in shared memory, two with A in tensor memory, each of k 16."""


def kernel_of(hdim: int) -> api.KernelSpec:
    return next(
        k for k in kernels_of("sm_100a") if algorithm_of(k).language is Language.GLUON and k.signature.hdim == hdim
    )


@pytest.mark.promise("`inspect` counts what a kernel does with tensor memory, and its instructions for each MFLOP.")
def test_instructions_barriers_and_columns_are_counted() -> None:
    found = tensor_memory_figures(kernel_of(64), PTX, {"instruction_classes": {"total": 1000}})
    assert found["tcgen05"] == {"ld": 1, "mma": 3, "wait": 1}
    assert (found["mbarriers"], found["cluster_barriers"], found["tensor_memory_columns"]) == (2, 1, 384)


@pytest.mark.promise("`inspect` counts what a kernel does with tensor memory, and its instructions for each MFLOP.")
def test_the_work_of_the_products_follows_the_head_dim_and_the_type() -> None:
    """Q·K has 128 columns, P·V those of V; fp8 products have twice the k."""
    counted = {"instruction_classes": {"total": 1000}}
    wide, narrow = (tensor_memory_figures(kernel_of(n), PTX, counted) for n in (128, 64))
    assert wide["instructions_per_mflop"] == round(1000 / (2 * 128 * 16 * 3 * 128 / 1e6), 1) == 635.8
    assert narrow["instructions_per_mflop"] == round(1000 / (2 * 128 * 16 * (128 + 2 * 64) / 1e6), 1)
    eight = replace(kernel_of(128), signature=replace(kernel_of(128).signature, dtype=plugin.DType.FP8_E5M2))
    assert tensor_memory_figures(eight, PTX, counted)["instructions_per_mflop"] == 317.9


def test_without_a_count_there_is_no_ratio() -> None:
    assert tensor_memory_figures(kernel_of(64), PTX, {"instruction_classes": None})["instructions_per_mflop"] is None
    assert (
        tensor_memory_figures(kernel_of(64), "", {"instruction_classes": {"total": 1}})["instructions_per_mflop"]
        is None
    )
