"""The plain formula detects every fault planted in a backward kernel; without one, the same problems are correct."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.generators.cpu.backward_cases import (
    BEST,
    BackwardCase,
    backward_complaints,
    finish_forward,
    make_backward,
    run_backward,
)
from tests.support.generators.cpu.cases import Load
from tests.support.models.faults import BackwardFault

BASE = BackwardCase("fp32", heads=4, kv_heads=2, q_len=(40,), k_len=(150,), capacity=150, hdim=32, hdim_v=24)
NEEDS: dict[BackwardFault, dict[str, object]] = {
    BackwardFault.WINDOW_SIDE: {"left": 20, "right": 3},
    BackwardFault.MASK_OFF_BY_ONE: {"right": 0},
    BackwardFault.LSE_LOG2: {"with_lse": False},
    BackwardFault.DROPOUT_INVERTED: {"dropout": 0.3},
    BackwardFault.DROPOUT_OFFSET: {"dropout": 0.3},
    BackwardFault.DV_KEEP_MISSING: {"dropout": 0.3},
    BackwardFault.ALIBI_SIGN: {"alibi": 1},
    BackwardFault.SLOPE_MISSING: {"softcap": 1.0},
    BackwardFault.DBIAS_HEAD_LOST: {"bias": (1, 1), "dbias": True},
    BackwardFault.DBIAS_ROWS_LOST: {"bias": (1, 1), "bias_rows": False, "dbias": True, "q_len": (300,)},
    BackwardFault.HIDDEN_LEAKS: {"right": 0},
    BackwardFault.ZERO_WEIGHT: {"right": 0, "bias": (1, 4), "dbias": True},
    BackwardFault.V_COLUMNS: {"v_in_k": True},
    BackwardFault.DV_IN_K_LOST: {"v_in_k": True},
}
"""What a problem needs for the fault to have an effect; the other faults affect any problem."""


def case_for(fault: BackwardFault, dtype: str) -> BackwardCase:
    case = replace(BASE, dtype=dtype, data={}, **NEEDS.get(fault, {}))
    make_backward(case, np.random.default_rng(11))
    if fault is BackwardFault.HIDDEN_LEAKS:  # seen by the last row alone
        case.data["k"][0, :, -1] = np.nan
    if fault is BackwardFault.ZERO_WEIGHT:
        case.data["v"][0, :, -1] = np.nan
    if fault is BackwardFault.EMPTY_ROW:  # keys that are seen, whose scores are -inf
        case.data["q"][...], case.data["k"][0, 0] = np.abs(case.data["q"]), -np.inf
    finish_forward(case)
    return case


def results(load_faulty: Load, dtype: str, fault: BackwardFault, planted: BackwardFault | None) -> list[str]:
    case = case_for(fault, dtype)
    run_backward(load_faulty(BEST, dtype, planted), case)
    return backward_complaints(case)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("fault", BackwardFault)
def test_fault_shows(load_faulty: Load, fault: BackwardFault) -> None:
    assert results(load_faulty, "fp32", fault, None) == []
    assert results(load_faulty, "fp32", fault, fault) != []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("fault", BackwardFault)
def test_fault_shows_in_low_precision(load_faulty: Load, fault: BackwardFault, dtype: str) -> None:
    assert results(load_faulty, dtype, fault, None) == []
    assert results(load_faulty, dtype, fault, fault) != []
