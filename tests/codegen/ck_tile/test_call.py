"""Argument lists match the headers that they fill: every parameter in its place, every member by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.codegen.ck_tile.args import args_of
from fmha_cli.codegen.ck_tile.call import KernelCall, prepare_text
from fmha_cli.codegen.ck_tile.emit import source_text, unit_of
from fmha_cli.codegen.ck_tile.features import grouped
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.referees.ck_tile.generated import baseline
from tests.support.referees.ck_tile.kernel_headers import karg_members, parameters, plain, struct

HEADERS = {
    Family.FWD: ("fmha_fwd_kernel.hpp", "FmhaFwdKernel"),
    Family.FWD_SPLITKV: ("fmha_fwd_splitkv_kernel.hpp", "FmhaFwdSplitKVKernel"),
    Family.FWD_SPLITKV_COMBINE: ("fmha_fwd_splitkv_combine_kernel.hpp", "FmhaFwdSplitKVCombineKernel"),
    Family.FWD_PAGEDKV: ("fmha_fwd_pagedkv_kernel.hpp", "FmhaFwdPagedKVKernel"),
    Family.FWD_APPENDKV: ("fmha_fwd_appendkv_kernel.hpp", "FmhaFwdAppendKVKernel"),
    Family.BATCH_PREFILL: ("fmha_batch_prefill_kernel.hpp", "FmhaBatchPrefillWithPagedKVCacheKernel"),
    Family.BWD_DOT_DO_O: ("fmha_bwd_kernel.hpp", "FmhaBwdOGradDotOKernel"),
    Family.BWD_DQ_DK_DV: ("fmha_bwd_kernel.hpp", "FmhaBwdDQDKDVKernel"),
    Family.BWD_CONVERT_DQ: ("fmha_bwd_kernel.hpp", "FmhaBwdConvertQGradKernel"),
}
RENAMED = {
    "nhead_q": {"num_head_q", "nhead"},
    "nhead_stride_lsed": {"nhead_stride_d"},
    "batch_stride_lsed": {"batch_stride_d"},
    "dq_ptr": {"dq_acc_ptr"},
    "stride_dq": {"stride_dq_acc"},
    "nhead_stride_dq": {"nhead_stride_dq_acc"},
    "batch_stride_dq": {"batch_stride_dq_acc"},
    "stride_o_acc": {"row_stride_o_acc"},
    "stride_o": {"row_stride_o"},
}
"""Fields with other names in a header; small-tile dQ kernels take dQ where the others take the accumulator."""


@pytest.fixture(scope="module")
def headers(shared_cache: Path) -> dict[Family, str]:
    folder = baseline(shared_cache).include / "ck_tile" / "ops" / "fmha" / "kernel"
    return {family: struct(plain(folder / file), name) for family, (file, name) in HEADERS.items()}


def shapes_of_calls(family: Family) -> list[KernelSpec]:
    """One kernel for each distinct call of a family."""
    found: dict[object, KernelSpec] = {}
    for arch in ("gfx942", "gfx950"):
        for kernel in family_kernels(load_arch(arch), family):
            found.setdefault((kernel.signature.mode, getattr(kernel.algorithm, "max_seq_q", 0) > 0), kernel)
    return list(found.values())


def same(ours: str, theirs: str) -> bool:
    return ours == theirs or theirs in RENAMED.get(ours, ())


@pytest.mark.parametrize("family", HEADERS)
def test_every_argument_meets_the_parameter_of_its_name(headers: dict[Family, str], family: Family) -> None:
    for kernel in shapes_of_calls(family):
        call = unit_of(kernel).call
        overloads = parameters(headers[family], call.maker, grouped(kernel))
        fits = [names for names in overloads if len(names) == len(call.arguments)]
        assert fits, f"{call.maker} takes {[len(names) for names in overloads]} arguments, not {len(call.arguments)}"
        for names in fits:
            wrong = [(a, b) for a, b in zip(call.arguments, names, strict=True) if not same(a, b)]
            assert wrong == [], kernel.name


@pytest.mark.parametrize("family", [f for f in HEADERS if f is not Family.FWD_SPLITKV_COMBINE])
def test_every_parameter_of_the_grid_is_met(headers: dict[Family, str], family: Family) -> None:
    found = re.search(r"GridSize\(([^)]*)\)", headers[family])
    assert found
    theirs = [part.split("=")[0].split()[-1].strip("_") for part in found.group(1).split(",")]
    for kernel in shapes_of_calls(family):
        call = unit_of(kernel).call
        ours = [name.removeprefix("max_") for name in call.grid]
        wanted = [name.replace("batch_size", "batch").removeprefix("max_") for name in theirs]
        wanted = [{"nhead": "nhead_q", "num_head_q": "nhead_q"}.get(name, name) for name in wanted]
        assert [o for o in ours if o in dict.fromkeys(wanted)] == [w for w in wanted if w in ours], kernel.name
        assert len(ours) in (len(wanted), len(wanted) - 1) or call.grid_text, kernel.name


def test_the_description_knows_every_member(headers: dict[Family, str]) -> None:
    theirs = set().union(*(karg_members(text) for text in headers.values()))
    ours = set(re.findall(r"X\((\w+)\)", source_text("kargs.h").split("template")[0])) - {"name"}
    assert ours == theirs


def test_a_check_of_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError):
        prepare_text(args_of(Family.FWD), KernelCall(maker="MakeKargs", arguments=(), unused=("nonsense",)))
