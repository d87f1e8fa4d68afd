"""wgmma: every layout and swizzle against plain matrix products, and what is reported when it is not waited for."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import library
from fmha_nvptx_emu_tests.support.warpgroup import KINDS, SETUP, Layout, Product, names

K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}


def small(kind: str, n: int, layout_a: Layout | None, layout_b: Layout, **more: Any) -> Product:
    """Small integers: every order of sums gives the same, so a wrong place is the only fault."""
    random, k = np.random.default_rng([n, len(kind)]), K[kind]
    a, b = (random.integers(-4, 5, shape).astype(KINDS[kind]) for shape in ((64, k), (n, k)))
    return Product(kind, a, b, random.integers(-8, 9, (64, n)).astype(np.float32), layout_a, layout_b, **more)


def assert_product(it: Product, wanted: Any) -> None:
    d, seen = it.run()
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d.astype(np.float32), wanted)


def plain(it: Product) -> Any:
    return it.a.astype(np.float32) @ it.b.astype(np.float32).T


ALONG = [Layout(16), Layout(32), Layout(64), Layout(64, at=32), Layout(128), Layout(128, at=32), Layout(128, at=96)]
ACROSS = [Layout(span, across=True) for span in (16, 32, 64, 128)]


@pytest.mark.parametrize("layout", ALONG + ACROSS, ids=str)
@pytest.mark.parametrize("which", ["a", "b"])
def test_each_layout_in_shared_memory(layout: Layout, which: str) -> None:
    it = small("f16", 64, layout if which == "a" else Layout(128), layout if which == "b" else Layout(128))
    assert_product(it, plain(it) + it.c)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("registers", [False, True])
def test_each_type_from_shared_memory_and_registers(kind: str, registers: bool) -> None:
    it = small(kind, 24, None if registers else Layout(64), Layout(32))
    assert_product(it, plain(it) + it.c)


@pytest.mark.parametrize("n", [8, 16, 80, 128, 248, 256])
def test_each_width(n: int) -> None:
    it = small("bf16", n, None, Layout(128, across=n % 64 == 0))
    assert_product(it, plain(it) + it.c)


def test_sums_of_halves() -> None:
    it = small("f16", 32, Layout(128), Layout(128), sums="f16")
    assert_product(it, plain(it) + it.c)


def test_what_its_operands_scale() -> None:
    it = small("f16", 16, None, Layout(32), scale_d="0")
    assert_product(it, plain(it))
    it = small("f16", 16, None, Layout(32), negated=(-1, 1))
    assert_product(it, it.c - plain(it))
    it = small("f16", 16, None, Layout(32), negated=(-1, -1))
    assert_product(it, it.c + plain(it))


def test_sums_ascend_in_binary32() -> None:
    """Exact products, one rounding for each, in ascending k."""
    random = np.random.default_rng(3)
    a, b = (random.normal(0, 2, (rows, 16)).astype(np.float16) for rows in (64, 16))
    c = random.normal(0, 1, (64, 16)).astype(np.float32)
    wanted = c.copy()
    for k in range(16):
        wanted = (a[:, k : k + 1].astype(np.longdouble) * b[:, k].astype(np.longdouble) + wanted).astype(np.float32)
    assert_product(Product("f16", a, b, c, Layout(128), Layout(128)), wanted)


def found(it: Product, **changed: str) -> list[tuple[str, str]]:
    _, seen = it.run(**changed)
    assert seen.fault is None, seen.fault
    return [(one["kind"], one["text"]) for one in seen.findings]


SHARED = small("f16", 16, Layout(128), Layout(128))
REGISTERS = small("f16", 16, None, Layout(128))
PLAIN = small("f16", 16, Layout(16), Layout(16))
STORE = "st.shared.u32 [tile], %r0;"
END = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
OTHER = SHARED.instruction().replace(names(8), "{%a0, " + names(7, 101)[1:]).replace("%rd7, 1", "%rd7, 0")

PLANTED = {
    "sums read before the wait": (SHARED, {"behind": "add.f32 %f1, %a3, %a3;" + END}, "missing-wait", "reads a register"),
    "sums read after too weak a wait": (
        SHARED, {"behind": "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; add.f32 %f1, %a3, %a3; wgmma.wait_group.sync.aligned 0;"},
        "missing-wait", "reads a register",
    ),
    "a copy of the sums read before the wait": (SHARED, {"behind": "mov.b32 %r9, %a3; add.s32 %r10, %r9, 1;" + END}, "missing-wait", "reads a register"),
    "sums that share one register with those before": (SHARED, {"behind": OTHER + "add.f32 %f1, %a103, %a103;" + END}, "missing-wait", "reads a register"),
    "an input overwritten before the wait": (REGISTERS, {"behind": "add.s32 %a129, %a129, 1;" + END}, "missing-wait", "writes a register"),
    "shared memory overwritten before the wait": (SHARED, {"behind": f"@%p1 {STORE}" + END}, "missing-wait", "no wgmma.wait_group lies between"),
    "its second column of pieces overwritten before the wait": (
        PLAIN, {"behind": "@%p1 st.shared.u32 [tile+128], %r0;" + END}, "missing-wait", "no wgmma.wait_group lies between",
    ),
    "no wgmma.fence": (SHARED, {"before": ""}, "missing-fence", "no wgmma.fence"),
    "sums changed behind the fence": (SHARED, {"before": "wgmma.fence.sync.aligned; add.f32 %a3, %a3, %a3;"}, "missing-fence", "written before"),
    "no proxy fence": (
        SHARED, {"setup": SETUP + f"@%p1 {STORE} bar.sync 0;"}, "missing-fence", "no fence.proxy.async between",
    ),
    "the copy is not waited for": (SHARED, {"setup": SETUP.replace("@!%p2 bra WAIT;", "")}, "missing-wait", "no wait for the mbarrier"),
    "half of the lanes": (SHARED, {"behind": "setp.lt.u32 %p3, %r0, 7; @%p3 wgmma.commit_group.sync.aligned;" + END}, "divergent-barrier", "needs the lanes"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_misuse_is_named(name: str) -> None:
    it, changed, kind, words = PLANTED[name]
    seen = found(it, **changed)
    assert {one[0] for one in seen} == {kind}, seen
    assert any(words in text for _, text in seen), seen


def test_a_fence_after_the_barrier_serves_too() -> None:
    setup = SETUP + f"@%p1 {STORE} bar.sync 0; fence.proxy.async.shared::cta;"
    assert found(SHARED, setup=setup) == []


def test_a_move_behind_the_fence_is_the_compilers() -> None:
    assert found(SHARED, before="wgmma.fence.sync.aligned; mov.b32 %a3, 0;") == []


def test_operands_that_were_never_written() -> None:
    setup = SETUP.replace("cp.async.bulk.", "//").replace(
        "arrive.expect_tx.shared::cta.b64 _, [tile+65536], 65536", "arrive.shared::cta.b64 _, [tile+65536]"
    )
    assert {one[0] for one in found(SHARED, setup=setup)} == {"uninitialised-register"}


def truncating(a: Any, b: Any, c: float, bits: int, kept: int) -> float:
    """Products and C cut at ``bits`` binary places below the largest exponent, summed exactly, and cut to ``kept`` places."""
    exponent = [math.frexp(x)[1] - 1 for x in (*a, *b, c)]
    k = len(a)
    top = max(*(exponent[n] + exponent[k + n] for n in range(k)), exponent[-1])
    terms = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)]
    total = sum(math.trunc(term * Fraction(2) ** (bits - top)) for term in (*terms, Fraction(float(c))))
    if not total:
        return 0.0
    places = kept - (abs(total).bit_length() - 1)
    cut = math.trunc(total * Fraction(2) ** places)
    return float(Fraction(cut) * Fraction(2) ** (top - bits - places))


@pytest.mark.parametrize(("kind", "bits", "kept"), [("f16", 25, 23), ("bf16", 25, 23), ("e4m3", 13, 13)])
def test_sums_of_the_hardware_are_truncated(kind: str, bits: int, kept: int) -> None:
    random, k = np.random.default_rng(5), K[kind]
    a, b = (np.where(np.abs(x := random.normal(0, 2, (rows, k))) < 0.05, 1, x).astype(KINDS[kind]) for rows in (64, 8))
    c = random.normal(0, 1, (64, 8)).astype(np.float32)
    it = Product(kind, a, b, c, Layout(128 if k == 16 else 32), Layout(128 if k == 16 else 32))
    plain_sums, _ = it.run()
    library().emu_device(b"sm_90a")
    library().emu_hardware(1)
    try:
        d, seen = it.run()
    finally:
        library().emu_hardware(0)
        library().emu_device(b"sm_80")
    assert (seen.fault, seen.findings) == (None, [])
    left, right = (x.astype(np.float64) for x in (a, b))
    wanted = [[truncating(left[m], right[n], c[m, n], bits, kept) for n in range(8)] for m in range(64)]
    np.testing.assert_array_equal(d.astype(np.float64), wanted)
    assert (d != plain_sums).any()
