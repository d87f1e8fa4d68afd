"""NaN and infinity: hidden keys never affect the result, visible keys do."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from tests.support.generators.cpu.cases import BEST, AttentionCase, Load, complaints, make_data, run

DTYPES = ["fp32", "fp16", "bf16"]
KINDS = ["prefill", "decode"]


def case_of(dtype: str, kind: str, **changes: object) -> AttentionCase:
    rows = 5 if kind == "decode" else 45
    case = AttentionCase(dtype, q_len=(rows,), k_len=(90,), capacity=90, hdim=33, hdim_v=20, **changes)  # type: ignore[arg-type]
    make_data(case, np.random.default_rng(3))
    return case


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_keys_hidden_from_some_rows(load: Load, arch: str, dtype: str, kind: str) -> None:
    """The last key is visible only to the last row. Its V or its K is infinite or NaN."""
    for name, value in (("v", np.inf), ("v", np.nan), ("k", np.nan), ("k", np.inf)):
        case = case_of(dtype, kind, right=0)
        case.data[name][0, :, 89] = value
        run(load(arch, dtype, kind), case)
        assert complaints(case) == [], (name, value)
        assert np.isfinite(case.data["o"][0, :, :-1].astype(np.float32)).all()
        assert not np.isfinite(case.data["o"][0, :, -1].astype(np.float32)).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_hidden_from_all_rows(load: Load, dtype: str, kind: str) -> None:
    case = case_of(dtype, kind, left=3, right=-2, sink=2)
    seen = np.zeros(90, bool)
    rows = np.arange(case.q_len[0]) + 90 - case.q_len[0]
    for row in rows:
        seen[max(row - 3, 0) : row - 1] = True
    seen[:2] = True
    case.data["k"][0, :, ~seen], case.data["v"][0, :, ~seen] = np.nan, np.nan
    run(load(BEST, dtype, kind), case)
    assert complaints(case) == []
    assert np.isfinite(case.data["o"].astype(np.float32)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_nan_with_payload_stays_nan(load: Load, arch: str, kind: str) -> None:
    case = case_of("fp32", kind)
    case.data["q"][0, 1, 2, 5] = np.frombuffer(np.uint32(0xFFC00001).tobytes(), np.float32)[0]
    run(load(arch, "fp32", kind), case)
    o = case.data["o"]
    assert np.isnan(o[0, 1, 2]).all()
    assert np.isnan(case.data["lse"][0, 1, 2])
    assert np.isfinite(np.delete(o[0, 1], 2, axis=0)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_see_nothing(load: Load, kind: str) -> None:
    case = case_of("fp32", kind, right=-60 if kind == "prefill" else -88)
    run(load(BEST, "fp32", kind), case)
    assert complaints(case) == []
    assert np.isneginf(case.data["lse"][0, 0, 0])
    assert (case.data["o"][0, :, 0] == 0).all()
