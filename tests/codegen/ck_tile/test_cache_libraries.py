"""Compiled libraries of the KV-cache families: every field arrives, refusals are named, the right instance runs."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.upstream_names import upstream_name
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.emit import unit_of
from fmha_cli.codegen.ck_tile.features import grouped
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.protocols import BuildContext
from tests.support.builds.ck_libraries import ask, builds
from tests.support.generators.ck_tile.distinct import BATCH, HEADS, KV_HEADS, ROWS, members_of, values_of

SPLITS = 6
QUICK = {
    "combine_plain": ("gfx90a", "fmha_fwd_splitkv_combine_d128_fp16_batch_*_ps_nlse_nsquant*"),
}
"""A kernel that other tests of CI compile too."""
CI = (pytest.mark.slow, pytest.mark.ci)
SLOW = {
    "append": ("gfx942", "fmha_fwd_appendkv_d128_fp16_*_vr_psskddv_inter_pagedkv*"),
    "splitkv": ("gfx942", "fmha_fwd_splitkv_d128_fp16_batch_*_psskddv_nlogits_nbias_nmask_*_npagedkv*"),
    "splitkv_uneven": ("gfx942", "fmha_fwd_splitkv_d64_bf16_batch_*_psk_nlogits_bias_mask_*_pagedkv*"),
    "splitkv_group": ("gfx950", "fmha_fwd_splitkv_d64_bf16_group_*_psskddv_nlogits_alibi_mask_*_pagedkv*"),
    "splitkv_merged": ("gfx90a", "fmha_fwd_splitkv_d128_bf16_group_*_pssk_logits_nbias_nmask_*_npagedkv*"),
    "splitkv_fp8": ("gfx942", "fmha_fwd_splitkv_d64_fp8_batch_*_pssk_nlogits_alibi_nmask_*_squant_npagedkv*"),
    "splitkv_rdna": ("gfx1201", "fmha_fwd_splitkv_d64_fp16_batch_*_psskddv_logits_nbias_mask_*_pagedkv*"),
    "combine": ("gfx942", "fmha_fwd_splitkv_combine_d128_fp16_batch_*_psdv_lse*"),
    "combine_group": ("gfx950", "fmha_fwd_splitkv_combine_d64_bf16_group_*_ps_lse*"),
    "combine_fp8": ("gfx90a", "fmha_fwd_splitkv_combine_d64_fp8_batch_*_npad_nlse_squant*"),
    "combine_rdna": ("gfx1201", "fmha_fwd_splitkv_combine_d256_fp16_batch_*_psdv_lse*"),
    "paged": ("gfx942", "fmha_fwd_pagedkv_d128_fp16_batch_*_pssk_nlogits_bias_mask_*"),
    "paged_group": ("gfx950", "fmha_fwd_pagedkv_d128_bf16_group_*_pssk_nlogits_alibi_mask_*"),
    "paged_fp8": ("gfx942", "fmha_fwd_pagedkv_d64_fp8_batch_*_pssk_nlogits_bias_nmask_*_squant*"),
    "paged_softcap": ("gfx90a", "fmha_fwd_pagedkv_d128_fp16_batch_*_ps_logits_nbias_nmask_*"),
    "paged_rdna": ("gfx1201", "fmha_fwd_pagedkv_d128_fp16_group_*_pssk_logits_nbias_mask_*"),
    "append_plain": ("gfx90a", "fmha_fwd_appendkv_d64_bf16_*_vr_psk_gfx9"),
    "append_fp8": ("gfx950", "fmha_fwd_appendkv_d256_fp8_*"),
    "append_rdna": ("gfx1201", "fmha_fwd_appendkv_d32_bf16_*_psskddv_half_gfx12"),
    "prefill": ("gfx942", "fmha_batch_prefill_d128_fp16_batch_b128*_psskddv_nlogits_bias_mask_lse_dropout_*"),
    "prefill_group": ("gfx90a", "fmha_batch_prefill_d128_bf16_group_b64*_psskddv_nlogits_alibi_mask_lse_dropout_*"),
    "prefill_softcap": (
        "gfx950",
        "fmha_batch_prefill_d128_bf16_batch_b128*_psskddv_logits_nbias_nmask_nlse_ndropout_*",
    ),
}
CASES = [
    *(pytest.param(name, marks=CI, id=name) for name in QUICK),
    *(pytest.param(name, marks=pytest.mark.slow, id=name) for name in SLOW),
]
BOOLEAN = ("is_gappy", "has_mask")


@cache
def kernel_of(name: str) -> KernelSpec:
    arch, pattern = {**QUICK, **SLOW}[name]
    kernels = (k for family in Family for k in family_kernels(load_arch(arch), family))
    return next(k for k in kernels if fnmatchcase(upstream_name(k) or "", pattern))


@pytest.fixture(scope="module")
def context(shared_cache: Path) -> BuildContext:
    return builds(shared_cache)


def cached_values(kernel: KernelSpec, *, seed_on_device: bool = False) -> dict[str, Any]:
    """``values_of`` with cache sizes; all values still differ."""
    out = values_of(kernel, seed_on_device=seed_on_device)
    own = {
        "num_splits": SPLITS,
        "page_block_size": 256,
        "is_gappy": 1,
        "rotary_dim": 32,
        "has_mask": 1,
        "seqlen_knew": 704,
        "num_total_pages": 1111,
    }
    if not algorithm_of(kernel).pad_sk:
        own["seqlen_k_ptr"] = 0
    unused = set(unit_of(kernel).call.unused)
    return out | {name: value for name, value in own.items() if name in out and name not in unused}


def algorithm_of(kernel: KernelSpec) -> CkAlgorithm:
    assert isinstance(kernel.algorithm, CkAlgorithm)
    return kernel.algorithm


def cached_members(kernel: KernelSpec, values: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """``members_of`` plus the peculiarities of these kernels: names, lengths found on the device, booleans."""
    renamed = {"row_stride_o": "stride_o", "row_stride_o_acc": "stride_o_acc"}
    own: dict[str, Any] = {name: values[field] for name, field in renamed.items() if name in names}
    own |= {name: bool(values[name]) for name in BOOLEAN if name in names}
    if kernel.family in (Family.FWD_APPENDKV, Family.BATCH_PREFILL):
        own["seqlen_k"] = -1
    return {**members_of(kernel, values, names - own.keys()), **own}


PASSED = {
    Family.FWD_SPLITKV: "q_ptr k_ptr v_ptr lse_acc_ptr o_acc_ptr batch hdim_q hdim_v num_head_q nhead_ratio_qk num_splits"
    " scale_s split_stride_lse_acc split_stride_o_acc nhead_stride_lse_acc stride_o_acc seqlen_k_ptr",
    Family.FWD_SPLITKV_COMBINE: "lse_acc_ptr o_acc_ptr o_ptr batch seqlen_q hdim_v num_splits row_stride_o"
    " row_stride_o_acc nhead_stride_o split_stride_lse_acc split_stride_o_acc",
    Family.FWD_PAGEDKV: "q_ptr k_ptr v_ptr o_ptr block_table_ptr batch_stride_block_table page_block_size scale_s"
    " seqlen_k_ptr batch_stride_k batch_stride_v",
    Family.FWD_APPENDKV: "q_ptr k_ptr knew_ptr v_ptr vnew_ptr seqlen_k_ptr seqlen_knew stride_knew batch_stride_vnew",
    Family.BATCH_PREFILL: "q_ptr k_ptr v_ptr o_ptr num_total_pages kv_indptr kv_page_indices scale_s batch_stride_k",
}
"""The members that every kernel of a family has."""
OPTIONAL = {
    "yes:softcap": "logits_soft_cap logits_soft_cap_rcp",
    "yes:lse": "lse_ptr nhead_stride_lse",
    "yes:dropout": "rp_undrop p_undrop_in_uint8_t drop_seed drop_offset is_store_randval rand_val_ptr",
    "elementwise:bias": "bias_ptr stride_bias nhead_stride_bias",
    "alibi:bias": "alibi_slope_ptr alibi_slope_stride",
    "any:mask": "window_size_left window_size_right mask_type",
    "half:rotary": "rotary_cos_ptr rotary_sin_ptr rotary_dim has_mask",
    "interleaved:rotary": "rotary_cos_ptr rotary_sin_ptr rotary_dim has_mask",
    "paged:cache": "block_table_ptr batch_stride_block_table page_block_size",
}
"""The members that exist only with one choice of the signature."""


def assert_options_arrive(kernel: KernelSpec, names: set[str]) -> None:
    assert set(PASSED[kernel.family].split()) <= names
    stage = kernel.family in (Family.FWD_SPLITKV_COMBINE, Family.FWD_APPENDKV)
    for choice, members in OPTIONAL.items():
        value, field = choice.split(":")
        made = getattr(kernel.signature, field).value
        if (made == "any" and value != "any") or (stage and field == "mask"):
            continue
        if kernel.family is Family.BATCH_PREFILL and field == "cache":
            continue
        if made == value:
            assert set(members.split()) <= names, choice
        elif field not in ("rotary",):
            assert not set(members.split()) & names, choice
    quantised = kernel.signature.qscale.value == "tensor"
    scales = {Family.FWD_SPLITKV: {"scale_p"}, Family.FWD_SPLITKV_COMBINE: {"scale_o"}, Family.FWD_APPENDKV: set()}
    wanted = scales.get(kernel.family, {"scale_p", "scale_o"}) if quantised else set()
    assert names & {"scale_p", "scale_o"} == wanted


@pytest.mark.parametrize("name", CASES)
def test_every_field_arrives_under_its_name(context: BuildContext, name: str) -> None:
    kernel = kernel_of(name)
    calls = [cached_values(kernel), cached_values(kernel, seed_on_device=True)]
    answer = ask(kernel, context, calls)
    assert answer["layout"] == []
    for values, call in zip(calls, answer["calls"], strict=True):
        assert (call["status"], call["field"]) == ("OK", None)
        assert call["differing"] == []
        assert call["launched"] == [call["grid"], call["block"], 0]
        names = set(call["members"])
        assert call["members"] == cached_members(kernel, values, names)
        assert_options_arrive(kernel, names)
        assert call["bytes"] - call["covered"] < 40
        assert "BYTES" not in call["kinds"].values()
        assert call["grid"] == grid_of(kernel, values)
        assert call["block"] == [threads_of(kernel), 1, 1]
    assert answer["refused"] == [["LAUNCH_FAILED", 719], ["OK", 0]]
    assert answer["name"] == re.sub(r"_gfx\d+$", "", upstream_name(kernel) or "")


def threads_of(kernel: KernelSpec) -> int:
    lanes = 64 if kernel.arch.startswith("gfx9") else 32
    if kernel.family is Family.FWD_APPENDKV:
        return 256
    if kernel.family is Family.FWD_SPLITKV_COMBINE:
        return 4 * lanes
    m, n, k = algorithm_of(kernel).waves[:3]
    return m * n * k * lanes


def grid_of(kernel: KernelSpec, values: dict[str, Any]) -> list[int]:
    """The result of ``GridSize`` in the kernel's class."""
    tile = algorithm_of(kernel).tile
    if kernel.family is Family.FWD_APPENDKV:
        return [max(-(-values["seqlen_q"] // tile[0]), -(-values["seqlen_knew"] // tile[1])), HEADS, BATCH]
    if kernel.family is Family.FWD_SPLITKV_COMBINE:
        lanes = 64 if kernel.arch.startswith("gfx9") else 32
        rows = lanes // (tile[0] * 4 // 16)
        return [-(-values["max_seqlen_q"] // rows) * -(-values["hdim_v"] // tile[0]), HEADS, BATCH]
    tiles = -(-values["max_seqlen_q"] // tile[0]) * -(-values["hdim_v"] // tile[3])
    if kernel.family is Family.FWD_SPLITKV:
        return [tiles * SPLITS, HEADS, BATCH]
    heads_first = grouped(kernel) and (kernel.family is Family.BATCH_PREFILL or values["seqlen_k_ptr"] != 0)
    return [HEADS, BATCH, tiles] if heads_first else [tiles, HEADS, BATCH]


def refusals(answer: Any, bad: list[tuple[str, Any, str, str]]) -> list[tuple[str, Any, str, str]]:
    """The bad values that were not refused as expected."""
    calls = answer["calls"][-len(bad) :]
    pairs = zip(bad, calls, strict=True)
    return [(row[0], row[1], c["status"], c["field"]) for row, c in pairs if (c["status"], c["field"]) != row[2:]]


BAD = {
    "append": [
        ("block_table_ptr", 0, "BAD_ARGUMENT", "block_table_ptr"),
        ("cache_batch_idx", 4096, "BAD_ARGUMENT", "cache_batch_idx"),
        ("seqlen_k_ptr", 0, "BAD_ARGUMENT", "seqlen_k_ptr"),
        ("knew_ptr", 0, "BAD_ARGUMENT", "knew_ptr"),
        ("rotary_cos_ptr", 0, "BAD_ARGUMENT", "rotary_cos_ptr"),
        ("rotary_dim", 24, "BAD_ARGUMENT", "rotary_dim"),
        ("rotary_dim", 144, "BAD_ARGUMENT", "rotary_dim"),
        ("has_mask", 2, "OVERFLOW", "has_mask"),
        ("page_block_size", 0, "BAD_ARGUMENT", "page_block_size"),
        ("batch_stride_block_table", 2**31 // 4 + 1, "OVERFLOW", "batch_stride_block_table"),
        ("seqlen_knew", 2**31, "OVERFLOW", "seqlen_knew"),
        ("seqlen_q", -1, "BAD_ARGUMENT", "seqlen_q"),
        ("hdim_v", 129, "BAD_ARGUMENT", "hdim_v"),
        ("nhead_k", 5, "BAD_ARGUMENT", "nhead_q"),
        ("stride_vnew", 2**31, "OVERFLOW", "stride_vnew"),
        ("batch_stride_k", -(2**31) - 1, "OVERFLOW", "batch_stride_k"),
    ],
    "splitkv": [
        ("num_splits", 0, "BAD_ARGUMENT", "num_splits"),
        ("num_splits", 129, "BAD_ARGUMENT", "num_splits"),
        ("block_table_ptr", 4096, "BAD_ARGUMENT", "block_table_ptr"),
        ("seqstart_q_ptr", 4096, "BAD_ARGUMENT", "seqstart_q_ptr"),
        ("is_gappy", 1, "BAD_ARGUMENT", "is_gappy"),
        ("bias_ptr", 4096, "BAD_ARGUMENT", "bias_ptr"),
        ("mask_type", 1, "BAD_ARGUMENT", "mask_type"),
        ("scale_p", 0.5, "BAD_ARGUMENT", "scale_p"),
        ("lse_acc_ptr", 0, "BAD_ARGUMENT", "lse_acc_ptr"),
        ("split_stride_o_acc", 2**31 // 5 + 1, "OVERFLOW", "split_stride_o_acc"),
        ("split_stride_lse_acc", 2**31, "OVERFLOW", "split_stride_lse_acc"),
        ("max_seqlen_q", ROWS - 1, "BAD_ARGUMENT", "max_seqlen_q"),
        ("nhead_stride_o_acc", 2**31, "OVERFLOW", "nhead_stride_o_acc"),
    ],
    "combine_plain": [
        ("num_splits", 129, "BAD_ARGUMENT", "num_splits"),
        ("lse_acc_ptr", 0, "BAD_ARGUMENT", "lse_acc_ptr"),
        ("scale_o", 2.0, "BAD_ARGUMENT", "scale_o"),
        ("hdim_v", 129, "BAD_ARGUMENT", "hdim_v"),
        ("max_seqlen_q", 2**31 - 2**15, "OVERFLOW", "max_seqlen_q"),
        ("split_stride_o_acc", 2**31 // 5 + 1, "OVERFLOW", "split_stride_o_acc"),
    ],
    "combine": [
        ("num_splits", 129, "BAD_ARGUMENT", "num_splits"),
        ("lse_ptr", 0, "BAD_ARGUMENT", "lse_ptr"),
        ("scale_o", 2.0, "BAD_ARGUMENT", "scale_o"),
        ("hdim_v", 129, "BAD_ARGUMENT", "hdim_v"),
        ("max_seqlen_q", 2**31 - 2**15, "OVERFLOW", "max_seqlen_q"),
        ("batch_stride_lse", 2**31, "OVERFLOW", "batch_stride_lse"),
    ],
    "paged": [
        ("block_table_ptr", 0, "BAD_ARGUMENT", "block_table_ptr"),
        ("page_block_size", 0, "BAD_ARGUMENT", "page_block_size"),
        ("cache_batch_idx", 4096, "BAD_ARGUMENT", "cache_batch_idx"),
        ("min_seqlen_q", 1, "BAD_ARGUMENT", "min_seqlen_q"),
        ("lse_ptr", 4096, "BAD_ARGUMENT", "lse_ptr"),
        ("hdim_q", 120, "BAD_ARGUMENT", "hdim_q"),
        ("batch_stride_v", 2**31, "OVERFLOW", "batch_stride_v"),
    ],
    "prefill": [
        ("kv_indptr", 0, "BAD_ARGUMENT", "kv_indptr"),
        ("kv_page_indices", 0, "BAD_ARGUMENT", "kv_page_indices"),
        ("num_total_pages", 0, "BAD_ARGUMENT", "num_total_pages"),
        ("stride_k", 2**31 // 1110 + 1, "OVERFLOW", "stride_k"),
        ("stride_v", 2**31 // 1110 + 1, "OVERFLOW", "stride_v"),
        ("hdim_q", 124, "BAD_ARGUMENT", "hdim_q"),
        ("p_drop", 1.0, "BAD_ARGUMENT", "p_drop"),
        ("drop_seed_ptr", 0, "BAD_ARGUMENT", "drop_seed_ptr"),
    ],
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=CI if name in QUICK else pytest.mark.slow, id=name) for name in BAD]
)
def test_bad_arguments_are_named(context: BuildContext, name: str) -> None:
    kernel, bad = kernel_of(name), BAD[name]
    good = cached_values(kernel, seed_on_device=True)
    answer = ask(kernel, context, [good, *({**good, field: value} for field, value, _, _ in bad)])
    assert answer["calls"][0]["status"] == "OK"
    assert refusals(answer, bad) == []


def unpadded_sizes_are_refused(context: BuildContext, name: str, bad: list[tuple[str, Any, str, str]]) -> None:
    kernel = kernel_of(name)
    good = cached_values(kernel)
    answer = ask(kernel, context, [good, *({**good, field: value} for field, value, _, _ in bad)])
    assert answer["calls"][0]["status"] == "OK"
    assert refusals(answer, bad) == []


@pytest.mark.slow
def test_unpadded_kernels_take_whole_tiles_only(context: BuildContext) -> None:
    rows = ("seqlen_q", ROWS - 1, "BAD_ARGUMENT", "seqlen_q")
    unpadded_sizes_are_refused(context, "splitkv_uneven", [rows, ("hdim_v", 32, "BAD_ARGUMENT", "hdim_v")])
    keys = ("seqlen_k", 1281, "BAD_ARGUMENT", "seqlen_k")
    given = ("seqlen_k_ptr", 4096, "BAD_ARGUMENT", "seqlen_k_ptr")
    unpadded_sizes_are_refused(context, "paged_softcap", [keys, given])
    unpadded_sizes_are_refused(context, "combine_fp8", [rows, ("hdim_v", 33, "BAD_ARGUMENT", "hdim_v")])


def flags_of(symbol: str) -> tuple[str, str]:
    """kHasUnevenSplits and kMergeNumHeadGroupsSeqLenQ in a mangled symbol of a split-KV kernel."""
    found = re.search(r"TileFmhaFwdSplitKVTraitsI.*?Lb([01])ELb([01])ELin?\d+EE", symbol)
    assert found, symbol
    return found[1], found[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "wanted"),
    [
        ("splitkv", {"seqlen_k_ptr": 0, "seqlen_k": 128 * SPLITS}, ("0", "0")),
        ("splitkv", {"seqlen_k_ptr": 0, "seqlen_k": 128 * SPLITS - 1}, ("1", "0")),
        ("splitkv", {"seqlen_k_ptr": 4096, "seqlen_k": 128 * SPLITS}, ("1", "0")),
        ("splitkv", {"seqlen_q": 1, "max_seqlen_q": 1, "seqlen_k_ptr": 0, "seqlen_k": 128 * SPLITS}, ("0", "1")),
        ("splitkv", {"seqlen_q": 1, "max_seqlen_q": 1, "seqlen_k_ptr": 4096}, ("1", "1")),
        ("splitkv", {"seqlen_q": 1, "max_seqlen_q": 1, "nhead_k": HEADS}, ("1", "0")),
        ("splitkv_uneven", {"seqlen_k_ptr": 0, "seqlen_k": 64 * SPLITS}, ("0", "0")),
        ("splitkv_uneven", {"seqlen_k_ptr": 0, "seqlen_k": 64 * SPLITS + 64}, ("1", "0")),
        ("splitkv_group", {"seqlen_q": 1, "max_seqlen_q": 1}, ("1", "0")),
        ("splitkv_merged", {"seqlen_q": 5, "max_seqlen_q": 1}, ("1", "1")),
        ("splitkv_merged", {"seqlen_q": 5, "max_seqlen_q": 2}, ("1", "0")),
    ],
)
def test_splitkv_launches_the_instance_that_upstream_would(
    context: BuildContext, name: str, change: dict[str, int], wanted: tuple[str, str]
) -> None:
    kernel = kernel_of(name)
    values = cached_values(kernel) | change
    (call,) = ask(kernel, context, [values])["calls"]
    assert call["status"] == "OK"
    assert flags_of(call["symbol"]) == wanted
    merged = wanted[1] == "1"
    rows = HEADS // KV_HEADS if merged else values["max_seqlen_q"]
    assert call["grid"][:2] == [-(-rows // algorithm_of(kernel).tile[0]) * SPLITS, KV_HEADS if merged else HEADS]
    assert call["launched"][0] == call["grid"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("splits", "log"), [(1, 3), (8, 3), (9, 4), (16, 4), (32, 5), (33, 6), (64, 6), (65, 7), (128, 7)]
)
def test_combine_launches_the_instance_that_upstream_would(context: BuildContext, splits: int, log: int) -> None:
    kernel = kernel_of("combine")
    (call,) = ask(kernel, context, [cached_values(kernel) | {"num_splits": splits}])["calls"]
    assert call["status"] == "OK"
    found = re.search(r"TileFmhaFwdSplitKVCombineTraitsI(?:Lb[01]E){4}Li(\d+)E", call["symbol"])
    assert found
    assert int(found[1]) == log
