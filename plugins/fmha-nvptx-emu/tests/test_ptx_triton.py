"""PyTorch's Triton kernels, compiled by Triton, against numpy: code that nobody here wrote, from a third compiler."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("triton", reason="Triton's compiler is not installed (pip install triton)")
pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")

from triton_anchors import CASES, ROUNDING, execute


@pytest.mark.parametrize("ragged", [False, True], ids=["even", "ragged"])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_agrees_with_numpy(name: str, ragged: bool) -> None:
    seen, error = execute("sm_80", CASES[name](np.random.default_rng(0), ragged), 0)
    assert seen.fault is None, seen.fault
    assert not seen.findings, seen.findings
    assert error < ROUNDING


def test_a_wrong_sum_is_noticed() -> None:
    """A planted fault: a reciprocal in place of each power of two."""
    _, error = execute("sm_80", CASES["softmax"](np.random.default_rng(0), False), 0, ("ex2.approx", "rcp.approx"))
    assert not error < ROUNDING
