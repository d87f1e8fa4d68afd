"""Runs kernels from Triton's compiler: an anchor that contains none of Composable Kernel's code."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.anchor_reference import attention, row_error
from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32
from fmha_amdgpu_emu_tests.support.machine import Program, device

pytest.importorskip("triton", reason="Triton's compiler is not installed (pip install triton)")

from fmha_amdgpu_emu_tests.support.triton_attention import compiled

TYPES: dict[str, Any] = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}
ROUNDING = {"fp16": 2.0**-11, "bf16": 2.0**-8}
NO_POINTER = np.zeros(0, np.uint32)
"""Triton passes scratch pointers after the arguments; these kernels use none."""


def launched(
    arch: str, dtype: str, *, causal: bool, hdim: int, block: tuple[int, int], lengths: tuple[int, int]
) -> tuple[float, float, list[dict[str, Any]]]:
    """The row error of O, the largest error of the LSE, and the findings."""
    kernel = compiled(arch, dtype, causal=causal, hdim=hdim, block_m=block[0], block_n=block[1])
    heads, (rows, keys) = 2, lengths
    rng = np.random.default_rng([rows, keys, hdim])
    q, k, v = (rng.standard_normal((heads, n, hdim)).astype(TYPES[dtype]) for n in (rows, keys, keys))
    o, lse = np.full((heads, rows, hdim), np.nan, TYPES[dtype]), np.full((heads, rows), np.nan, np.float32)
    scale = hdim**-0.5
    bits = int(np.float32(scale * math.log2(math.e)).view(np.uint32))
    program = Program(kernel.asm["hsaco"])
    with ExitStack() as live:
        for array, name in ((q, "q"), (k, "k"), (v, "v"), (o, "o"), (lse, "lse")):
            live.enter_context(device(array.view(np.uint8), name, writable=name in ("o", "lse")))
        numbers = (rows, keys, bits, rows * hdim, keys * hdim)
        observed = program.launch(
            kernel.metadata.name,
            (-(-rows // block[0]), heads, 1),
            (kernel.metadata.num_warps * (32 if arch in WAVE32 else 64), 1, 1),
            *(q, k, v, o, lse, *numbers, NO_POINTER, NO_POINTER),
            lds=kernel.metadata.shared,
        )
    program.close()
    wide = [x.astype(np.float64) for x in (q, k, v)]
    wanted, log_sum, _ = attention(wide[0], wide[1], wide[2], scale, causal=causal)
    return row_error(o.astype(np.float64), wanted), float(abs(lse * math.log(2) - log_sum).max()), observed["findings"]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_attention(arch: str, dtype: str, causal: bool) -> None:
    error, lse_error, findings = launched(arch, dtype, causal=causal, hdim=64, block=(64, 32), lengths=(100, 130))
    assert error < 2 * ROUNDING[dtype]
    assert lse_error < 2e-6
    assert findings == []


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(1, 1), (64, 64), (65, 200), (128, 33)])
@pytest.mark.parametrize("shape", [(32, (32, 16)), (128, (64, 64)), (128, (128, 32)), (64, (16, 128))])
@pytest.mark.parametrize("arch", ARCHS)
def test_attention_of_many_shapes(arch: str, shape: tuple[int, tuple[int, int]], lengths: tuple[int, int]) -> None:
    hdim, block = shape
    for dtype in TYPES:
        for causal in (False, lengths[0] <= lengths[1]):
            error, lse_error, findings = launched(arch, dtype, causal=causal, hdim=hdim, block=block, lengths=lengths)
            assert error < 2 * ROUNDING[dtype], (dtype, causal)
            assert lse_error < 2e-6
            assert findings == []
