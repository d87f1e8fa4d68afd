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

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch
from fmha_nvptx_emu_tests.test_tensor_copy import encode

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8e5": ml_dtypes.float8_e5m2}
SHARED = 200 << 10


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


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@pytest.mark.parametrize(("type_", "m", "n"), [("fp16", 128, 64), ("bf16", 64, 32), ("fp8e5", 128, 128)])
def test_a_product_of_one_block(type_: str, m: int, n: int) -> None:
    from fmha_nvptx_emu_tests.support.tensor_kernels import text_of_plain

    text = text_of_plain(type_, m, n, 64)
    assert "tcgen05.mma.cta_group::1" in text
    for seed in range(3):
        c, wanted, seen = product(text, "plain", type_, 2 * m, 2 * n, 192, (2, 2), seed)
        assert (seen.fault, seen.findings) == (None, [])
        np.testing.assert_allclose(c, wanted, atol=2e-4)


@pytest.mark.parametrize("left_out", ["tcgen05.wait::st", "fence.proxy.async", "tcgen05.dealloc"])
def test_an_instruction_that_is_left_out_is_found(left_out: str) -> None:
    """Each line of its kind, one at a time."""
    from fmha_nvptx_emu_tests.support.tensor_kernels import text_of_plain

    text = text_of_plain("fp16", 128, 64, 64)
    lines = [m.start() for m in re.finditer(re.escape(left_out), text)]
    assert lines
    kinds = {"tcgen05.wait::st": "missing-wait", "fence.proxy.async": "missing-fence", "tcgen05.dealloc": "tensor-memory-misuse"}  # fmt: skip
    for at in lines:
        first = text.rindex("\n", 0, at) + 1
        without = text[:first] + "//" + text[first:]
        _, _, seen = product(without, "plain", "fp16", 128, 64, 192, (1, 1), 0)
        assert seen.fault is None
        assert kinds[left_out] in seen.kinds


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_a_cluster_that_share_a_product(seed: int) -> None:
    from fmha_nvptx_emu_tests.support.tensor_kernels import text_of_plain

    c, wanted, seen = product(text_of_plain("fp16", 256, 128, 64, 2), "plain", "fp16", 256, 256, 128, (2, 2), seed)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_allclose(c, wanted, atol=2e-4)


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [64, 128])
def test_a_product_of_two_blocks(k: int, seed: int) -> None:
    from fmha_nvptx_emu_tests.support.tensor_kernels import text_of_pair

    text = text_of_pair(256, 128, k)
    assert "tcgen05.mma.cta_group::2" in text
    assert "multicast::cluster" in text
    c, wanted, seen = product(text, "pair", "fp16", 256, 128, k, (2, 1), seed, size=False)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_allclose(c, wanted, atol=2e-4)


def descriptor(tensor: Array, box: tuple[int, int]) -> list[np.generic]:
    """The parameters that Triton passes for a tensor: its map in words, and behind them its sizes and strides, up to a multiple of 64 bytes."""
    answer, map_ = encode(tensor, box, swizzle=3)
    assert answer == 0
    sizes, strides = (np.int32(size) for size in tensor.shape), (np.int64(tensor.shape[1]), np.int64(1))
    return [*map_.view(np.uint64), *sizes, *strides, *np.zeros(5, np.uint64)]


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("left_out", [None, "mbarrier.try_wait.parity"])
def test_a_product_of_copies_that_the_first_blocks_mbarrier_counts(seed: int, left_out: str | None) -> None:
    from fmha_nvptx_emu_tests.support.tensor_kernels import text_of_copies

    text = text_of_copies(256, 128, 64)
    assert "cp.async.bulk.tensor.2d.cta_group::2" in text
    assert "and.b32" in text
    if left_out:  # the first wait: for the copies
        at = text.index(left_out)
        predicate = text[at:].split()[1].rstrip(",")
        text = text[:at] + f"setp.eq.u32 {predicate}, 0, 0;//" + text[at:]
    random, c = np.random.default_rng(seed), np.full((256, 128), np.nan, np.float32)
    a, b = (random.normal(size=shape).astype(np.float16) for shape in ((256, 64), (64, 128)))
    arguments = (
        *descriptor(a, (128, 64)),
        *descriptor(b, (64, 64))[:20],
        c,
        a,
        b,
    )  # the last two are unused: they tell where the tensors lie
    seen = launch(
        text, *arguments, grid=(2, 1, 1), block=(128, 1, 1), shared=SHARED, seed=seed, kernel="pair_of_copies"
    )
    assert seen.fault is None
    if left_out:
        assert "missing-wait" in seen.kinds
        return
    assert seen.findings == []
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=2e-4)
