"""The plain formula detects every planted fault; without a fault, the same problems give correct results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import detect
from tests.support.builds.planted_cpu import choose
from tests.support.generators.cpu.cases import FAULT_NEEDS, AttentionCase, Load, complaints, make_data, run
from tests.support.models.faults import BackwardFault, Fault

BASE = AttentionCase("fp32", heads=4, kv_heads=2, q_len=(9,), k_len=(150,), capacity=150, hdim=32, hdim_v=32)


def results(load: Load, kind: str, dtype: str, case: AttentionCase, fault: Fault | None) -> list[str]:
    rows = (4,) if kind == "decode" else (40,)
    case = replace(case, dtype=dtype, q_len=rows, data={})
    make_data(case, np.random.default_rng(11))
    run(load(detect().archs[0], dtype, kind, fault), case)
    return complaints(case)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize("fault", Fault)
def test_fault_shows(load: Load, fault: Fault, kind: str) -> None:
    case = replace(BASE, **FAULT_NEEDS.get(fault, {}))
    assert results(load, kind, "fp32", case, None) == []
    assert results(load, kind, "fp32", case, fault) != []


@pytest.mark.slow
@pytest.mark.ci
def test_a_phantom_key_when_unmasked(load: Load) -> None:
    assert results(load, "prefill", "fp32", BASE, Fault.MASK_OFF_BY_ONE) != []


def test_a_fault_that_a_kernel_cannot_have_is_an_error(load: Load) -> None:
    """Otherwise its test would judge a kernel without a fault."""
    library = load(detect().archs[0], "fp32", "prefill", Fault.NAN_ROW)
    with pytest.raises(ValueError, match=BackwardFault.DK_WRONG_HEAD.name):
        choose(library, BackwardFault.DK_WRONG_HEAD.name)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize("fault", sorted(set(Fault) - {Fault.LOW_PRECISION_ACC}))
def test_fault_shows_in_low_precision(load: Load, fault: Fault, kind: str, dtype: str) -> None:
    """The rounded accumulator is left out, because its error is near the budget. The oracle's rules judge it."""
    case = replace(BASE, **FAULT_NEEDS.get(fault, {}))
    assert results(load, kind, dtype, case, fault) != []
