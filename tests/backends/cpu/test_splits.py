"""Split keys in two launches: the split kernel's parts and the combine kernel's rows."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.codegen.abi import ENTRY, EntryStatus, part_floats
from fmha_cli.codegen.struct import pack
from tests.support.generators.cpu.cases import (
    BEST,
    AttentionCase,
    Load,
    arguments,
    best_first,
    complaints,
    make_data,
    random_case,
    run,
)
from tests.support.models.faults import CacheFault

CASE = AttentionCase("fp32", heads=8, kv_heads=2, q_len=(3,), k_len=(1900,), capacity=1900, hdim_v=40, splits=5)


def most_rows(case: AttentionCase) -> int:
    return max(case.q_len) * (case.heads // case.kv_heads)


def run_both(load: Load, arch: str, case: AttentionCase, fault: CacheFault | None = None) -> None:
    """Launch the split kernel, then the combine kernel. The parts are NaN before."""
    floats = part_floats(most_rows(case), case.hdim_v)
    parts = np.full(case.batch * case.kv_heads * case.splits * floats, np.nan, np.float32)
    for kind in ("split", "combine"):
        run(load(arch, case.dtype, kind, fault), case, parts=parts.ctypes.data, part_floats=floats)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("arch", best_first(ARCHS, default=False))
def test_random_cases(load: Load, arch: str, dtype: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng([seed, len(dtype), 99])
        case = replace(random_case(rng, dtype, few_rows=True), splits=(1, 2, 3, 64)[seed % 4])
        make_data(case, rng)
        run_both(load, arch, case)
        assert complaints(case) == [], f"seed {seed}: {case}"


@pytest.mark.slow
@pytest.mark.ci
def test_a_lost_split_shows(load: Load) -> None:
    case = replace(CASE, data={})
    make_data(case, np.random.default_rng(1))
    run_both(load, BEST, case)
    assert complaints(case) == []
    run_both(load, BEST, case, CacheFault.SPLIT_LOST)
    assert complaints(case) != []


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("kind", ["split", "combine"])
@pytest.mark.parametrize("wrong", [{"parts": 0}, {"part_floats": 1}, {"splits": 0}], ids=str)
def test_parts_of_another_size_are_refused(load: Load, kind: str, wrong: dict[str, int]) -> None:
    case = replace(CASE, data={})
    make_data(case, np.random.default_rng(1))
    floats = part_floats(most_rows(case), case.hdim_v)
    parts = np.zeros(case.kv_heads * case.splits * floats, np.float32)
    block = replace(arguments(case), **({"parts": parts.ctypes.data, "part_floats": floats} | wrong))
    assert load(BEST, "fp32", kind)[ENTRY](ctypes.byref(pack(block))) == EntryStatus.BAD_ARGUMENT


def test_the_host_and_the_kernel_agree_on_the_size_of_parts(load: Load) -> None:
    """The kernel refuses any other number, so that every size that it takes is the host's."""
    for rows, hdim_v in ((1, 1), (5, 17), (16, 64), (17, 65), (128, 256)):
        case = AttentionCase(
            "fp32", heads=rows, kv_heads=1, q_len=(1,), k_len=(3,), capacity=3, hdim_v=hdim_v, splits=2, data={}
        )
        make_data(case, np.random.default_rng(1))
        run_both(load, BEST, case)
        assert complaints(case) == []
