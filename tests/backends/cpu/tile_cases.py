"""The problem in which every fault of the kernels with matrix tiles must show."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from cpu_cases import FAULT_NEEDS, Case, complaints, make_data, run
from numerics.faults import Fault, TileFault
from software_tiles import choose

BASE = Case("bf16", heads=4, kv_heads=2, q_len=(40,), k_len=(150,), capacity=150, hdim=32, hdim_v=32)
NEEDS: dict[object, Mapping[str, Any]] = {
    **FAULT_NEEDS,
    TileFault.TILE_TAIL: {"right": -3},
}
"""What a problem needs for the fault to have an effect. Behind the last key of a sequence V is zero, so that it hides what weights
hold there; a mask ends blocks at other keys."""


def check_fault(
    library: ctypes.CDLL,
    fault: Fault | TileFault,
    base: Case = BASE,
    needs: Mapping[object, Mapping[str, Any]] = MappingProxyType(NEEDS),
) -> None:
    """The problem passes in a library of ``planted_tiles`` without the fault, and fails with it."""
    found = []
    for chosen in (None, fault):
        case = replace(base, **needs.get(fault, {}), data={})
        make_data(case, np.random.default_rng(11))
        run(choose(library, chosen), case)
        found.append(complaints(case))
    assert found[0] == []
    if fault is not Fault.LOW_PRECISION_ACC:  # its error is near the budget of bf16; the oracle's rules judge it
        assert found[1] != []
