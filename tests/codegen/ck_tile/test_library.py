"""Compiled libraries with the stand-in runtime: every field arrives under its name, and every argument is checked."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")

from fmha_cli.backends.ck_tile.building import workshop
from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.upstream_names import upstream_name
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.protocols import BuildContext
from tests.support.builds.ck_libraries import ask, builds
from tests.support.generators.ck_tile.distinct import BATCH, HEADS, members_of, values_of

TILE_ROWS_1D = 64

QUICK = {
    "dot_padded": ("gfx942", "fmha_bwd_dot_do_o_d128_bf16_b64_group_o2_ps_*"),
}
"""A kernel that compiles in a third of a forward kernel's time."""
SLOW = {
    "fwd_dropout": ("gfx1201", "fmha_fwd_d64_fp16_batch*_qr_vr_psskddv_nlogits_nbias_nmask_nlse_dropout_nskip*"),
    "fwd": ("gfx942", "fmha_fwd_d32_bf16_group*qr_vr_psskddv_nlogits_bias_mask_lse_dropout_skip*"),
    "dot": ("gfx942", "fmha_bwd_dot_do_o_d64_fp16*batch*psdv*"),
    "fwd_plain": ("gfx942", "fmha_fwd_d64_fp16_batch_*qr_async_vr_psddv_nlogits_nbias_nmask_nlse_ndropout_nskip*"),
    "fwd_alibi": ("gfx942", "fmha_fwd_d64_bf16_group*qr_async*logits_alibi_mask_lse_dropout_nskip*"),
    "fwd_batch": ("gfx90a", "fmha_fwd_d64_fp16_batch*qr_vr_psskddv_nlogits_bias_mask_lse_dropout_nskip*"),
    "fwd_softcap": ("gfx942", "fmha_fwd_d128_fp16_batch*qr_async_vr_psskddv_logits_nbias_mask_lse_ndropout_nskip*"),
    "fwd_trload": ("gfx950", "fmha_fwd_d64_fp16_batch*qr_async_trload_vr_npad*"),
    "fwd_rdna": ("gfx1201", "fmha_fwd_d64_fp16_batch*_qr_vr_psskddv_nlogits_bias_mask_lse_dropout_nskip*"),
    "fwd_fp32": ("gfx942", "fmha_fwd_d48_fp32_batch*nlogits_nbias_nmask_lse_ndropout_nskip*"),
    "fwd_fp8": ("gfx942", "fmha_fwd_d64_fp8bf16_batch*nbias_nmask*_squant*"),
    "bwd_plain": ("gfx942", "fmha_bwd_d64_fp16_batch*npad_nbias_ndbias_nmask_ndropout_ndeterministic_ntrload*"),
    "bwd_all": ("gfx942", "fmha_bwd_d64_bf16_group*_pd8dv8_bias_dbias_mask_dropout_wg16_storerandval_deterministic*"),
    "bwd_batch": ("gfx90a", "fmha_bwd_d32_fp16_batch*_pd1dv1_bias_dbias_mask_dropout_wg16_storerandval_deterministic*"),
    "bwd_alibi": ("gfx942", "fmha_bwd_d128_bf16_batch*_pd1dv1_alibi_ndbias_mask_dropout_wg16_ndeterministic*"),
    "bwd_small": ("gfx950", "fmha_bwd_d64_fp16_batch*maxq32*npad_bias_dbias*dropout_wg16_deterministic_trload*"),
    "bwd_rdna": ("gfx1201", "fmha_bwd_d64_bf16_batch*npad_nbias_ndbias_nmask_ndropout_ndeterministic*"),
    "dot_group": ("gfx950", "fmha_bwd_dot_do_o_d128_bf16*group*"),
    "convert": ("gfx942", "fmha_bwd_convert_dq_d64_fp16*batch*psd_deterministic*"),
    "convert_group": ("gfx1201", "fmha_bwd_convert_dq_d64_bf16*group*ndeterministic*"),
}
FORWARD = pytest.param("fwd_dropout", marks=(pytest.mark.slow, pytest.mark.ci), id="fwd_dropout")
"""A kernel that other tests of CI compile too."""
CASES = [
    *(pytest.param(name, id=name) for name in QUICK),
    FORWARD,
    *(pytest.param(name, marks=pytest.mark.slow, id=name) for name in SLOW if name != "fwd_dropout"),
]


@cache
def kernel_of(name: str) -> KernelSpec:
    arch, pattern = {**QUICK, **SLOW}[name]
    kernels = (k for family in Family for k in family_kernels(load_arch(arch), family))
    return next(k for k in kernels if fnmatchcase(upstream_name(k) or "", pattern))


@pytest.fixture(scope="module")
def context(shared_cache: Path) -> BuildContext:
    return builds(shared_cache)


@pytest.mark.parametrize("name", CASES)
def test_every_field_arrives_under_its_name(context: BuildContext, name: str) -> None:
    kernel = kernel_of(name)
    calls = [values_of(kernel), values_of(kernel, seed_on_device=True)]
    answer = ask(kernel, context, calls)
    assert answer["layout"] == []
    for values, call in zip(calls, answer["calls"], strict=True):
        assert (call["status"], call["field"]) == ("OK", None)
        assert call["differing"] == []
        assert call["launched"] == [call["grid"], call["block"], 0]
        names = set(call["members"])
        assert call["members"] == members_of(kernel, values, names)
        assert ("rand_val_ptr" in names) is (kernel.signature.dropout.value == "yes")
        assert call["bytes"] - call["covered"] < 40
        assert "BYTES" not in call["kinds"].values()
        assert call["grid"] == grid_of(kernel, values)
    assert answer["refused"] == [["LAUNCH_FAILED", 719], ["OK", 0]]
    assert_named(kernel, answer["name"])


def grid_of(kernel: KernelSpec, values: dict[str, Any]) -> list[int]:
    algorithm = kernel.algorithm
    assert isinstance(algorithm, CkAlgorithm)
    if kernel.family is Family.FWD:
        tiles = -(-values["max_seqlen_q"] // algorithm.tile[0])
        return [HEADS, BATCH, tiles] if values["seqlen_k_ptr"] else [HEADS, tiles, BATCH]
    if kernel.family is Family.BWD_DQ_DK_DV:
        return [1 if algorithm.max_seq_q else -(-values["max_seqlen_k"] // algorithm.tile[1]), HEADS, BATCH]
    return [-(-values["max_seqlen_q"] // TILE_ROWS_1D), HEADS, BATCH]


def assert_named(kernel: KernelSpec, theirs: str) -> None:
    """CK's own name agrees with upstream's file name, which also contains the architecture class."""
    ours = (upstream_name(kernel) or "").rpartition("_gfx")[0]
    assert theirs.split("_") == ours.split("_") or set(ours.split("_")) - set(theirs.split("_")) <= {
        "d192",
        "d96",
        "d80",
    }


BAD_OF_ALL = [
    ("o_ptr", 0, "BAD_ARGUMENT", "o_ptr"),
    ("batch", 0, "BAD_ARGUMENT", "batch"),
    ("batch", -1, "BAD_ARGUMENT", "batch"),
    ("batch", 2**31, "OVERFLOW", "batch"),
    ("max_seqlen_q", 2**31 - 1, "OVERFLOW", "max_seqlen_q"),
    ("stride_o", 2**31, "OVERFLOW", "stride_o"),
    ("stride_o", -(2**31) - 1, "OVERFLOW", "stride_o"),
    ("nhead_stride_do", 2**40, "OVERFLOW", "nhead_stride_do"),
    ("p_undrop", 0.0, "BAD_ARGUMENT", "p_undrop"),
]
BAD = {
    "dot_padded": [
        *BAD_OF_ALL,
        ("hdim_v", 129, "BAD_ARGUMENT", "hdim_v"),
        ("seqstart_q_ptr", 0, "BAD_ARGUMENT", "seqstart_q_ptr"),
    ],
    "dot": [
        *BAD_OF_ALL,
        ("hdim_v", 65, "BAD_ARGUMENT", "hdim_v"),
        ("max_seqlen_q", 100, "BAD_ARGUMENT", "max_seqlen_q"),
        ("seqlen_q_ptr", 4096, "BAD_ARGUMENT", "seqlen_q_ptr"),
    ],
}


@pytest.mark.parametrize("name", ["dot_padded", pytest.param("dot", marks=pytest.mark.slow)])
def test_bad_arguments_are_named(context: BuildContext, name: str) -> None:
    kernel, bad = kernel_of(name), BAD[name]
    good = values_of(kernel)
    edge = {**good, "stride_o": 2**31 - 1, "nhead_stride_do": -(2**31)}
    answer = ask(kernel, context, [good, edge, *({**good, field: value} for field, value, _, _ in bad)])
    first, second, *rest = answer["calls"]
    assert (first["status"], second["status"]) == ("OK", "OK")
    assert (second["members"]["stride_o"], second["members"]["nhead_stride_do"]) == (2**31 - 1, -(2**31))
    assert [(call["status"], call["field"]) for call in rest] == [(status, field) for _, _, status, field in bad]


BAD_OF_FORWARD = [
    ("nhead_k", 5, "BAD_ARGUMENT", "nhead_q"),
    ("nhead_k", 0, "BAD_ARGUMENT", "nhead_k"),
    ("logits_soft_cap", 3.0, "BAD_ARGUMENT", "logits_soft_cap"),
    ("p_drop", 1.0, "BAD_ARGUMENT", "p_drop"),
    ("p_drop", float("nan"), "BAD_ARGUMENT", "p_drop"),
    ("s_randval", 2, "OVERFLOW", "s_randval"),
    ("rand_val_ptr", 0, "BAD_ARGUMENT", "rand_val_ptr"),
    ("scale_o", 2.0, "BAD_ARGUMENT", "scale_o"),
    ("window_size_left", 2**33, "OVERFLOW", "window_size_left"),
    ("nhead_stride_randval", 2**31, "OVERFLOW", "nhead_stride_randval"),
]
BAD_FORWARD = {
    "fwd_dropout": [
        *BAD_OF_FORWARD,
        ("bias_ptr", 4096, "BAD_ARGUMENT", "bias_ptr"),
        ("mask_type", 1, "BAD_ARGUMENT", "mask_type"),
        ("seqstart_k_ptr", 4096, "BAD_ARGUMENT", "seqstart_k_ptr"),
    ],
    "fwd": [
        *BAD_OF_FORWARD,
        ("bias_ptr", 0, "BAD_ARGUMENT", "bias_ptr"),
        ("mask_type", 4, "BAD_ARGUMENT", "mask_type"),
        ("cu_seqlen_q_ptr", 4096, "BAD_ARGUMENT", "cu_seqlen_q_ptr"),
        ("min_seqlen_q", 2**31, "OVERFLOW", "min_seqlen_q"),
        ("seqstart_k_ptr", 0, "BAD_ARGUMENT", "seqstart_k_ptr"),
    ],
}


@pytest.mark.parametrize("name", [FORWARD, pytest.param("fwd", marks=pytest.mark.slow)])
def test_bad_arguments_of_a_forward_kernel_are_named(context: BuildContext, name: str) -> None:
    kernel, bad = kernel_of(name), BAD_FORWARD[name]
    good = values_of(kernel)
    answer = ask(kernel, context, [good, *({**good, field: value} for field, value, _, _ in bad)])
    first, *rest = answer["calls"]
    assert first["status"] == "OK"
    assert [(call["status"], call["field"]) for call in rest] == [(status, field) for _, _, status, field in bad]


def test_another_target_is_a_compile_error(context: BuildContext, tmp_path: Path) -> None:
    shop = workshop(context)
    source = tmp_path / "kernel.hip"
    source.write_text(emit(kernel_of("dot_padded")).split("#include")[0], "utf-8")

    def compiled(arch: str) -> subprocess.CompletedProcess[str]:
        flags = ("-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-fsyntax-only", f"--offload-arch={arch}")
        command = [*shop.toolchain.argv0, *flags, str(source)]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    assert compiled("gfx942").returncode == 0
    refused = compiled("gfx950")
    assert refused.returncode != 0
    assert "this kernel is for gfx942 alone" in refused.stderr
