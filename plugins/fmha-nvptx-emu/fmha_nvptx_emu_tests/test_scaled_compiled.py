"""Products with block scales that Triton's compiler made, executed and compared with numpy: where it puts scales is not ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("triton", minversion="3.9", reason="Triton 3.9 is not installed")

from fmha_nvptx_emu_tests.support.block_scales import numbers, scale_numbers
from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch

CASES = {
    "mxf4": ("e2m1", "e2m1", 32, "u8", "kind::mxf4.block_scale"),
    "mxf4nvf4": ("e2m1", "e2m1", 16, "fp8e4nv", "kind::mxf4nvf4.block_scale"),
    "mxf8f6f4": ("e5m2", "e4m3", 32, "u8", "kind::mxf8f6f4.block_scale"),
    "mxf8f6f4, b of 4 bits": ("e4m3", "e2m1", 32, "u8", "kind::mxf8f6f4.block_scale"),
}
"""Types of a and b, elements of a scale, type of the scales, and what the PTX has."""


def product(text: str, case: str, m: int, n: int, k: int, seed: int) -> tuple[Array, Array, Seen]:
    """What the kernel left, and what numpy says."""
    type_a, type_b, block, scales, _ = CASES[case]
    random = np.random.default_rng(seed)

    def codes(rows: int, type_: str) -> Array:
        return random.integers(0, 16, (rows, k)).astype(np.uint8) if type_ == "e2m1" else random.integers(0, 0x70, (rows, k)).astype(np.uint8)  # fmt: skip

    a, b = codes(m, type_a), codes(n, type_b)
    of = "ue8m0" if scales == "u8" else "ue4m3"
    low, high = (120, 130) if scales == "u8" else (0x28, 0x48)
    sa, sb = (random.integers(low, high, (rows, k // block)).astype(np.uint8) for rows in (m, n))
    left, right = (
        numbers(x, t) * np.repeat(scale_numbers(s, of), block, axis=1) for x, t, s in ((a, type_a, sa), (b, type_b, sb))
    )
    in_memory = [np.ascontiguousarray(x[:, ::2] | x[:, 1::2] << 4) if t == "e2m1" else x for x, t in ((a, type_a), (b, type_b))]  # fmt: skip
    c, scratch = np.full((m, n), np.nan, np.float32), np.zeros(64, np.uint8)
    seen = launch(text, *in_memory, sa, sb, c, scratch, scratch, block=(128, 1, 1), shared=200 << 10, seed=seed, kernel="scaled")  # fmt: skip
    return c, left @ right.T, seen


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("n", "k"), [(64, 128), pytest.param(256, 256, marks=pytest.mark.slow)])
def test_a_product_with_block_scales(case: str, n: int, k: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from fmha_nvptx_emu_tests.support.scaled_kernels import text_of_scaled

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    type_a, type_b, block, scales, kind = CASES[case]
    text = text_of_scaled(type_a, type_b, block, scales, 128, n, k)
    assert kind in text
    for seed in range(3):
        c, wanted, seen = product(text, case, 128, n, k, seed)
        assert (seen.fault, seen.findings) == (None, [])
        np.testing.assert_allclose(c, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
