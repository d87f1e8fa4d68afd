"""NaN and infinity in a backward pass: hidden pairs never affect a gradient, visible ones do. And nothing outside is touched."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from tests.backends.cpu.test_edges import fenced
from tests.support.generators.cpu.backward_cases import (
    BEST,
    DTYPES,
    KERNELS,
    BackwardCase,
    backward_complaints,
    finish_forward,
    make_backward,
    run_backward,
)
from tests.support.generators.cpu.cases import Load

FENCED = ("q", "k", "v", "o", "dout", "dq", "dk", "dv", "bias", "dbias", "lse", "alibi_slopes", "sink_logits")


def case_of(dtype: str, **changes: object) -> BackwardCase:
    case = BackwardCase(dtype, q_len=(45,), k_len=(90,), capacity=90, hdim=33, hdim_v=20, **changes)  # type: ignore[arg-type]
    make_backward(case, np.random.default_rng(3))
    return case


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(("arch", "dtype"), KERNELS)
def test_a_key_that_one_row_sees(load: Load, arch: str, dtype: str) -> None:
    """The last key is visible to the last row alone: no other row of dQ, and no other key of the other head, is touched."""
    for name, value in (("v", np.inf), ("v", np.nan), ("k", np.nan), ("k", np.inf)):
        case = case_of(dtype, right=0, bias=(1, 2), dbias=True)
        case.data[name][0, 0, 89] = value
        finish_forward(case)
        run_backward(load(arch, dtype, "backward"), case)
        assert backward_complaints(case) == [], (name, value)
        dq, dk = (case.data[n].astype(np.float32) for n in ("dq", "dk"))
        assert np.isfinite(dq[0, :, :-1]).all()
        assert not np.isfinite(dq[0, 0, -1]).any()
        assert np.isfinite(dk[0, 1]).all()


@pytest.mark.parametrize(("arch", "dtype"), KERNELS)
def test_a_row_that_sees_few_keys(load: Load, arch: str, dtype: str) -> None:
    """The first row sees the first 46 keys: the others' gradients stay finite whatever the row holds."""
    for name in ("q", "dout", "o"):
        case = case_of(dtype, right=0)
        case.data[name][0, 1, 0] = np.nan
        if name == "q":
            finish_forward(case)
        run_backward(load(arch, dtype, "backward"), case)
        assert backward_complaints(case) == [], name
        assert np.isfinite(case.data["dv"][0, :, 46:].astype(np.float32)).all()
        assert np.isfinite(case.data["dk"][0, :, 46:].astype(np.float32)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_hidden_from_all_rows(load: Load, dtype: str) -> None:
    case = case_of(dtype, left=3, right=-2, sink=2)
    seen = np.zeros(90, bool)
    for row in np.arange(45) + 45:
        seen[row - 3 : row - 1] = True
    seen[:2] = True
    case.data["k"][0, :, ~seen], case.data["v"][0, :, ~seen] = np.nan, np.inf
    finish_forward(case)
    run_backward(load(BEST, dtype, "backward"), case)
    assert backward_complaints(case) == []
    assert all(np.isfinite(case.data[name].astype(np.float32)).all() for name in ("dq", "dk", "dv"))
    assert not case.data["dk"][0, :, ~seen].any()


def test_rows_that_see_nothing(load: Load) -> None:
    case = case_of("fp32", right=-60)
    run_backward(load(BEST, "fp32", "backward"), case)
    assert backward_complaints(case) == []
    assert np.isneginf(case.data["lse"][0, 0, 0])
    assert not case.data["dq"][0, :, 0].any()


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("arch", "dtype"), KERNELS)
def test_nothing_outside_is_touched(load: Load, arch: str, dtype: str) -> None:
    library, rng = load(arch, dtype, "backward"), np.random.default_rng(8)
    for hdim, hdim_v, keys in ((1, 1, 1), (3, 5, 13), (33, 17, 29), (64, 100, 50), (127, 31, 7)):
        for at_end in (True, False):
            case = BackwardCase(
                dtype, q_len=(37,) * 2, k_len=(keys,) * 2, hdim=hdim, hdim_v=hdim_v, capacity=keys, bias=(2, 2), dbias=True,
                sink_logits=True, softcap=9.0, right=3, threads=1, with_lse=at_end,
            )  # fmt: skip
            make_backward(case, rng)
            keep: list[mmap.mmap] = []
            for name in FENCED:
                if name in case.data:
                    case.data[name] = fenced(np.ascontiguousarray(case.data[name]), at_end, keep)
                if f"{name}_buffer" in case.data:
                    case.data[f"{name}_buffer"] = case.data[name].reshape(-1)
            run_backward(library, case)
            assert backward_complaints(case) == [], case
