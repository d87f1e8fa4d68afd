"""Shared memory of a launch, against what NVRTC 13.0.88 and g++ computed from upstream's types."""

from __future__ import annotations

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.flash_attn_3.instance import ForwardInstance, forward_instance
from fmha_cli.codegen.flash_attn_3.shared_memory import shared_bytes
from fmha_cli.domain.kernel import Family

LIMIT = 232448
MEASURED = (
    ("bf16", 64, 64, "causal", 93184),
    ("bf16", 128, 128, "causal", 166912),
    ("bf16", 128, 128, "none", 216064),
    ("bf16", 192, 192, "causal", 224256),
    ("bf16", 256, 256, "causal", 232448),
    ("fp8_e4m3", 128, 128, "causal", 191488),
    ("fp8_e4m3", 256, 256, "causal", 232448),
)


@pytest.mark.parametrize(("dtype", "hdim", "hdim_v", "mask", "wanted"), MEASURED)
def test_it_is_what_compilers_computed(dtype: str, hdim: int, hdim_v: int, mask: str, wanted: int) -> None:
    found = {
        shared_bytes(forward_instance(kernel))
        for kernel in family_kernels("sm_90a", Family.FWD)
        for s in [kernel.signature]
        if (s.dtype.value, s.hdim, s.hdim_v, s.mask.value, s.softcap.value) == (dtype, hdim, hdim_v, mask, "no")
        and plain(forward_instance(kernel))
    }
    assert found == {wanted}


def plain(i: ForwardInstance) -> bool:
    return i.a.cluster == 1 and not (i.a.varlen or i.a.paged or i.a.pack_gqa or i.a.qv)


def test_no_kernel_needs_more_than_a_block_has() -> None:
    every = (k for family in (Family.FWD, Family.FWD_SPLITKV) for k in family_kernels("sm_90a", family))
    assert max(shared_bytes(forward_instance(kernel)) for kernel in every) <= LIMIT
