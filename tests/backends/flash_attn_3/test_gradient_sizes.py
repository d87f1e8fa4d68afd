"""Shared memory, threads and block of every kind of backward kernel are those of upstream's types, which g++ compiles."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.flash_attn_3.backward_instance import BACKWARD, Backward, BackwardInstance, backward_of
from fmha_cli.codegen.flash_attn_3.backward_memory import backward_bytes
from fmha_cli.codegen.flash_attn_3.backward_params import backward_block
from fmha_cli.codegen.flash_attn_3.instance import algorithm_of
from fmha_cli.codegen.struct import ctypes_structure
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from tests.support.referees.flash_attn_3.program import compiler_or_skip, sizes_of, sources_or_skip

pytestmark = [pytest.mark.slow, pytest.mark.ci]


def kinds() -> dict[object, KernelSpec]:
    """A kernel of each kind: sizes depend on neither the type of 16 bits, nor a window, softcap or the order of sums."""
    found: dict[object, KernelSpec] = {}
    for family in BACKWARD:
        for kernel in family_kernels("sm_90a", family):
            i, a = instance(kernel), algorithm_of(kernel)
            scheduler = i.scheduler if isinstance(i, BackwardInstance) else ""
            key = (family, i.hdim, a.tile, a.varlen, a.gqa, a.of_keys, scheduler)
            if i.dtype is DType.BF16:
                found.setdefault(key, kernel)
    return found


def instance(kernel: KernelSpec) -> Backward:
    return backward_of(kernel.family, kernel.signature, algorithm_of(kernel))


def test_sizes_are_those_of_upstreams_types(shared_cache: Path, tmp_path: Path) -> None:
    kernels = list(kinds().values())
    assert len(kernels) == 76
    theirs = sizes_of(sources_or_skip(shared_cache), tmp_path, compiler_or_skip(), kernels)
    for kernel, sizes in zip(kernels, theirs, strict=True):
        i = instance(kernel)
        block = ctypes.sizeof(ctypes_structure(backward_block(i)))
        assert (backward_bytes(i), i.threads, block) == sizes, i.template_id
