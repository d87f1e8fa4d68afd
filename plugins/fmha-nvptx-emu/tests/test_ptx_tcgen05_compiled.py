"""Products that Triton's compiler made of tcgen05, executed and compared with numpy, under several seeds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("triton", minversion="3.9", reason="Triton 3.9 is not installed")

from ptx_machine import Array, Seen, launch

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8e5": ml_dtypes.float8_e5m2}
SHARED = 200 << 10
LOADED = "a register of a tcgen05.ld that no tcgen05.wait::ld has waited for"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def product(text: str, kernel: str, type_: str, m: int, n: int, k: int, grid: tuple[int, int], seed: int, size: bool = True) -> tuple[Array, Any, Seen]:  # fmt: skip
    """What the kernel left, A B by numpy, and what was seen."""
    random, scratch = np.random.default_rng(seed), np.zeros(64, np.uint8)
    a, b = (random.normal(size=shape).astype(TYPES[type_]) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    arguments = (a, b, c, *((np.int32(k),) if size else ()), scratch, scratch)
    seen = launch(text, *arguments, grid=(*grid, 1), block=(128, 1, 1), shared=SHARED, seed=seed, kernel=kernel)
    return c, a.astype(np.float64) @ b.astype(np.float64), seen


@pytest.mark.parametrize(("type_", "m", "n"), [("fp16", 128, 64), ("bf16", 64, 32), ("fp8e5", 128, 128)])
def test_a_product_of_one_block(type_: str, m: int, n: int) -> None:
    from tensor_kernels import text_of_plain

    text = text_of_plain(type_, m, n, 64)
    assert "tcgen05.mma.cta_group::1" in text
    for seed in range(3):
        c, wanted, seen = product(text, "plain", type_, 2 * m, 2 * n, 192, (2, 2), seed)
        assert (seen.fault, seen.findings) == (None, [])
        np.testing.assert_allclose(c, wanted, atol=2e-4)


@pytest.mark.parametrize("left_out", ["tcgen05.wait::ld", "tcgen05.wait::st", "fence.proxy.async", "tcgen05.dealloc"])
def test_an_instruction_that_is_left_out_is_found(left_out: str) -> None:
    """Each line of its kind, one at a time."""
    from tensor_kernels import text_of_plain

    text = text_of_plain("fp16", 128, 64, 64)
    lines = [m.start() for m in re.finditer(re.escape(left_out), text)]
    assert lines
    kinds = {"tcgen05.wait::ld": "missing-wait", "tcgen05.wait::st": "missing-wait", "fence.proxy.async": "missing-fence", "tcgen05.dealloc": "tensor-memory-misuse"}  # fmt: skip
    for at in lines:
        first = text.rindex("\n", 0, at) + 1
        without = text[:first] + "//" + text[first:]
        _, _, seen = product(without, "plain", "fp16", 128, 64, 192, (1, 1), 0)
        assert seen.fault is None
        assert kinds[left_out] in seen.kinds


def clean_but_for_the_last_load(seen: Seen) -> bool:
    """Triton 3.9.0 places tcgen05.wait::ld behind the uses of its registers where a kernel has clusters."""
    return seen.fault is None and {one["text"].split(" ", 2)[2] for one in seen.findings} <= {LOADED}


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_a_cluster_that_share_a_product(seed: int) -> None:
    from tensor_kernels import text_of_plain

    c, wanted, seen = product(text_of_plain("fp16", 256, 128, 64, 2), "plain", "fp16", 256, 256, 128, (2, 2), seed)
    assert clean_but_for_the_last_load(seen)
    np.testing.assert_allclose(c, wanted, atol=2e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [64, 128])
def test_a_product_of_two_blocks(k: int, seed: int) -> None:
    from tensor_kernels import text_of_pair

    text = text_of_pair(256, 128, k)
    assert "tcgen05.mma.cta_group::2" in text
    assert "multicast::cluster" in text
    c, wanted, seen = product(text, "pair", "fp16", 256, 128, k, (2, 1), seed, size=False)
    assert clean_but_for_the_last_load(seen)
    np.testing.assert_allclose(c, wanted, atol=2e-4)
