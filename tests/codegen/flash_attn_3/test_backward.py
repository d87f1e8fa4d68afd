"""Backward kernels: shared memory and blocks as compiled kernels state them, and traits that a changed tree no longer has."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.flash_attn_3.backward_emit import LAUNCHES, check_traits
from fmha_cli.codegen.flash_attn_3.backward_instance import (
    LPT,
    Backward,
    BackwardInstance,
    ConvertInstance,
    DotInstance,
)
from fmha_cli.codegen.flash_attn_3.backward_memory import backward_bytes
from fmha_cli.codegen.flash_attn_3.backward_params import backward_block
from fmha_cli.codegen.flash_attn_3.instance import instance_of
from fmha_cli.codegen.struct import block_alignment, ctypes_structure, host_layout
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family

LIMIT = 232_448
"""Bytes of shared memory that a block can have on sm_90a."""
SHARED = {
    (64, "causal"): 200_704,
    (128, "causal"): 199_680,
    (128, "none"): 232_448,
    (192, "causal"): 223_232,
    (256, "causal"): 203_776,
}
"""Of dense kernels without softcap, as NVRTC 13.0.88 compiled them."""


def instances() -> list[Backward]:
    families = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)
    found = (instance_of(kernel) for family in families for kernel in family_kernels("sm_90a", family))
    return [i for i in found if isinstance(i, BackwardInstance | DotInstance | ConvertInstance)]


def mains() -> list[BackwardInstance]:
    return [i for i in instances() if isinstance(i, BackwardInstance)]


def test_names_are_unique() -> None:
    found = [i.template_id for i in instances()]
    assert len(set(found)) == len(found) == 488


def test_shared_memory_is_that_of_compiled_kernels() -> None:
    plain = [i for i in mains() if not (i.local or i.softcap or i.a.varlen)]
    found = {(i.hdim, "causal" if i.causal else "none"): backward_bytes(i) for i in plain if not i.a.gqa}
    assert {key: found[key] for key in SHARED} == SHARED
    of = {(i.hdim, i.rows): backward_bytes(i) for i in instances() if isinstance(i, ConvertInstance)}
    assert (of[128, 64], of[128, 128]) == (49_280, 98_432)


def test_no_kernel_needs_more_than_a_block_has() -> None:
    assert max(map(backward_bytes, instances())) == LIMIT


def test_blocks_are_those_of_compiled_kernels() -> None:
    sizes = {
        (i.a.gqa, i.a.varlen, i.scheduler == LPT): ctypes.sizeof(ctypes_structure(backward_block(i))) for i in mains()
    }
    assert (sizes[False, False, True], sizes[True, False, True]) == (1792, 1408)
    others = {type(i): ctypes.sizeof(ctypes_structure(backward_block(i))) for i in instances()}
    assert (others[DotInstance], others[ConvertInstance]) == (240, 112)


def test_every_block_is_whole_descriptors() -> None:
    for block in {backward_block(i) for i in mains()}:
        assert block_alignment(block) == 64
        assert ctypes.sizeof(ctypes_structure(block)) % 64 == 0
        assert all(offset % 64 == 0 for _, offset, size in host_layout(block) if size == 192)


def written(folder: Path, text: str) -> Path:
    path = folder / LAUNCHES
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return folder


BODY = "void run_mha_bwd_hdim128(Flash_bwd_params &params, cudaStream_t stream) {{\n  run_mha_bwd_dispatch<{}>(params);\n}}\n"
TRAITS = "Arch, T, 64, 128, 128, Is_causal, Is_local, Has_softcap, 2, 2, true, false, false, 2, 1, 2, 1, false"


@pytest.mark.parametrize("other", ["64, 64, 128", "64, 128, 256"])
def test_a_tree_with_other_traits_is_refused(tmp_path: Path, other: str) -> None:
    i = next(i for i in mains() if i.hdim == 128 and i.causal)
    check_traits(i, written(tmp_path / "same", BODY.format(TRAITS)))
    with pytest.raises(EnvironmentProblem, match="has no run_mha_bwd_dispatch"):
        check_traits(i, written(tmp_path / "other", BODY.format(TRAITS.replace("64, 128, 128", other))))


def test_traits_of_another_head_dim_do_not_count(tmp_path: Path) -> None:
    i = next(i for i in mains() if i.hdim == 128 and i.causal)
    with pytest.raises(EnvironmentProblem):
        check_traits(i, written(tmp_path, BODY.format("x") + BODY.replace("hdim128", "hdim192").format(TRAITS)))
