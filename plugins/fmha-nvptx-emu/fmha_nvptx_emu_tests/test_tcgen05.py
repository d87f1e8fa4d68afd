"""tcgen05.mma of one block: every layout, type and shape against plain matrix products, and what is reported of misuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import library
from fmha_nvptx_emu_tests.support.tensor_core import ALLOC, FREE, ORDER, TensorProduct, plain, small
from fmha_nvptx_emu_tests.support.warpgroup import KINDS, SETUP, Layout
from fmha_nvptx_emu_tests.test_wgmma import truncating

ALONG = [Layout(16), Layout(32), Layout(64), Layout(64, at=32), Layout(128), Layout(128, at=32), Layout(128, at=96)]
ACROSS = [Layout(span, across=True) for span in (16, 32, 64, 128)]
PLAIN = Layout(128)


def assert_product(it: TensorProduct, wanted: Any, **changed: Any) -> None:
    d, seen = it.run(**changed)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d.astype(np.float32), wanted)


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("layout", ALONG + ACROSS, ids=str)
@pytest.mark.parametrize("which", ["a", "b"])
def test_each_layout_in_shared_memory(layout: Layout, which: str) -> None:
    it = small("f16", 128, 64, layout if which == "a" else PLAIN, layout if which == "b" else PLAIN)
    assert_product(it, plain(it) + it.c)


@pytest.mark.parametrize("span", [16, 32, 64, 128])
def test_bytes_whose_rows_are_contiguous(span: int) -> None:
    it = small("e4m3", 128, 128, Layout(span, across=True), Layout(span, across=True))
    assert_product(it, plain(it) + it.c)


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("from_tensor_memory", [False, True])
def test_each_type_from_shared_and_tensor_memory(kind: str, m: int, from_tensor_memory: bool) -> None:
    it = small(kind, m, 48, None if from_tensor_memory else Layout(64), Layout(32))
    assert_product(it, plain(it) + it.c)


def test_types_of_bytes_may_differ() -> None:
    it = small("e5m2", 128, 32, PLAIN, PLAIN, "e4m3")
    assert_product(it, plain(it) + it.c)


@pytest.mark.parametrize(("m", "n"), [(64, 8), (64, 24), (64, 256), (128, 16), (128, 80), (128, 240), (128, 256)])
def test_each_width(m: int, n: int) -> None:
    it = small("bf16", m, n, PLAIN, PLAIN)
    assert_product(it, plain(it) + it.c)


def test_sums_of_halves() -> None:
    it = small("f16", 128, 32, PLAIN, PLAIN, sums="f16")
    assert_product(it, plain(it) + it.c)


def test_what_its_operands_scale() -> None:
    it = small("f16", 128, 16, None, PLAIN, adds=False)
    assert_product(it, plain(it))
    assert_product(replace(it, adds=True, negated=(True, False)), it.c - plain(it))
    assert_product(replace(it, adds=True, negated=(True, True)), it.c + plain(it))
    assert_product(replace(it, adds=True, scale=2), it.c / 4 + plain(it))


def test_lanes_of_d_that_are_left_out() -> None:
    it = small("f16", 128, 16, PLAIN, PLAIN, left_out=", {%r30, %r31, %r32, %r33}")
    masks = [0x1, 0x80000000, 0, 0xFFFF0000]
    before = " ".join(f"mov.b32 %r{30 + k}, {mask};" for k, mask in enumerate(masks))
    left_out = np.array([masks[lane // 32] >> lane % 32 & 1 for lane in range(128)], bool)
    assert_product(it, np.where(left_out[:, None], it.c, plain(it) + it.c), before=before)


def random_product(kind: str, rows: int = 8) -> TensorProduct:
    random, k = np.random.default_rng(5), 32 // np.dtype(KINDS[kind]).itemsize
    a, b = (np.where(np.abs(x := random.normal(0, 2, (r, k))) < 0.05, 1, x).astype(KINDS[kind]) for r in (64, rows))
    return TensorProduct(kind, kind, a, b, random.normal(0, 1, (64, rows)).astype(np.float32), PLAIN, PLAIN)


def test_sums_ascend_in_binary32() -> None:
    """Exact products, one rounding for each, in ascending k."""
    it = random_product("f16")
    wanted = it.c.copy()
    for k in range(16):
        product = it.a[:, k : k + 1].astype(np.longdouble) * it.b[:, k].astype(np.longdouble)
        wanted = (product + wanted).astype(np.float32)
    assert_product(it, wanted)


@pytest.mark.parametrize("kind", ["f16", "bf16", "e4m3", "e5m2"])
def test_sums_of_the_hardware_are_truncated(kind: str) -> None:
    it = random_product(kind)
    plain_sums, _ = it.run()
    library().emu_hardware(1)
    try:
        d, seen = it.run()
    finally:
        library().emu_hardware(0)
    assert (seen.fault, seen.findings) == (None, [])
    a, b = (x.astype(np.float64) for x in (it.a, it.b))
    wanted = [[truncating(a[m], b[n], it.c[m, n], 25, 23) for n in range(8)] for m in range(64)]
    np.testing.assert_array_equal(d.astype(np.float64), wanted)
    assert (d != plain_sums).any()


IT = small("f16", 128, 16, PLAIN, PLAIN)
FROM_TENSOR = small("f16", 128, 16, None, PLAIN)
STORE = "st.shared.u32 [tile], %r0;"

PLANTED = {
    "sums read before the commit is waited for": (IT, {"wait": ""}, "missing-wait", "no wait for a tcgen05.commit lies between"),
    "no commit before the wait of another": (
        IT, {"commit": "@%p1 mbarrier.arrive.shared::cta.b64 _, [tile+65560];"}, "missing-wait", "no wait for a tcgen05.commit lies between",
    ),
    "C stored without a wait": (IT, {"order": ORDER.replace("tcgen05.wait::st.sync.aligned;", "")}, "missing-wait", "no tcgen05.wait::st between"),
    "C stored without a barrier": (IT, {"order": ORDER.replace("bar.sync 0;", "")}, "shared-race", "nothing orders the two"),
    "A stored without a barrier": (FROM_TENSOR, {"order": ORDER.replace("bar.sync 0;", "")}, "shared-race", "nothing orders the two"),
    "tensor memory is not freed": (IT, {"free": ""}, "tensor-memory-misuse", "512 columns of tensor memory from column 0 were not freed"),
    "freed twice": (IT, {"free": FREE + FREE}, "tensor-memory-misuse", "not allocated like this"),
    "freed in part": (IT, {"free": FREE.replace("512", "256")}, "tensor-memory-misuse", "not allocated like this"),
    "freed before it is read": (IT, {"wait": "WAITED: " + FREE, "free": ""}, "tensor-memory-misuse", "not all of them are allocated"),
    "the wrong quarter": (
        IT, {"before": "xor.b32 %r12, %r12, 0x400000;"}, "tensor-memory-misuse", "the quarter of warp",
    ),
    "outside of what is allocated": (IT, {"alloc": ALLOC.replace("512", "32"), "free": FREE.replace("512", "32")}, "tensor-memory-misuse", "not all of them are allocated"),
    "shared memory overwritten before the wait": (IT, {"wait": f"@%p1 {STORE} LATER: mbarrier.try_wait.parity.shared::cta.b64 %p2, [tile+65560], 0; @!%p2 bra LATER;"}, "missing-wait", "no wait for a tcgen05.commit lies between"),
    "no proxy fence": (IT, {"setup": SETUP + f"@%p1 {STORE} bar.sync 0;"}, "missing-fence", "no fence.proxy.async between"),
    "the copy is not waited for": (IT, {"setup": SETUP.split("WAIT:")[0]}, "missing-wait", "no wait for the mbarrier"),
    "half of the lanes load": (IT, {"wait": "LATER: mbarrier.try_wait.parity.shared::cta.b64 %p2, [tile+65560], 0; @!%p2 bra LATER; setp.lt.u32 %p5, %r0, 7; @%p5 tcgen05.wait::ld.sync.aligned;"}, "divergent-barrier", "needs the lanes"),
}  # fmt: skip


@pytest.mark.promise("The PTX emulator finds missing waits, fences and order in tensor memory.")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_misuse_is_named(name: str) -> None:
    it, changed, kind, words = PLANTED[name]
    _, seen = it.run(**changed)
    assert seen.named(kind, words), seen


def test_allocation_after_the_permit_is_given_up() -> None:
    again = "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile+65568], 32; bar.sync 0; ld.shared.b32 %r21, [tile+65568]; @%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r21, 32;"
    _, seen = IT.run(alloc=ALLOC.replace("512", "256"), free=FREE.replace("512", "256"), before=again)
    assert "tensor-memory-misuse" in seen.kinds
    assert any("relinquish_alloc_permit was executed before" in one["text"] for one in seen.findings)


def test_a_warp_waits_for_columns_for_ever() -> None:
    again = "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile+65568], 32;"
    _, seen = IT.run(before=again)
    assert seen.fault is not None
    assert "too few columns of tensor memory are free" in seen.fault


GIVEN = IT.descriptor


@pytest.mark.parametrize(
    ("descriptor", "words"),
    [
        (GIVEN | 1 << 2, "sparse matrices"),
        (GIVEN | 1 << 3, "saturate"),
        (GIVEN | 2 << 7, "the format 2 of a matrix"),
        (GIVEN | 1 << 10, "matrices of f16 and of bf16"),
        (GIVEN | 3 << 4, "the format 3 of D"),
        (GIVEN & ~(63 << 17) | 3 << 17, "the shape m128n24"),
        (GIVEN & ~(31 << 24) | 16 << 24, "the shape m256n16"),
    ],
)
def test_an_instruction_descriptor_that_is_not_implemented_stops(descriptor: int, words: str) -> None:
    _, seen = IT.run(descriptor=descriptor)
    assert seen.fault is not None
    assert words in seen.fault
