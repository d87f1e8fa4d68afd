"""tcgen05.mma with block scales and with elements of 4 and 6 bits, against numpy; what is reported of misuse."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.block_scales import SCALES, TYPES, ProductCodes, bytes_of, case, numbers, with_scales
from fmha_nvptx_emu_tests.support.ptx_machine import library
from fmha_nvptx_emu_tests.support.tensor_core import ORDER, PAIR, TensorProduct
from fmha_nvptx_emu_tests.support.warpgroup import Layout

PLAIN = Layout(128)
NARROW = [t for t, (_, bits) in TYPES.items() if bits < 8]
PAIRS = [(a, b) for a, b in product(TYPES, TYPES) if a in NARROW or b in NARROW]


def assert_product(it: TensorProduct, wanted: Any, **changed: Any) -> None:
    d, seen = it.run(**changed)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d.astype(np.float64), wanted)


def narrow(kinds: tuple[str, str], m: int, n: int, layout_a: Layout | None, layout_b: Layout, **more: Any) -> tuple[TensorProduct, Any]:  # fmt: skip
    """A product without scales, and what it is."""
    it = case("mxf8f6f4", m, n, kinds)
    a = bytes_of(it.a, kinds[0], False, layout_a is None)
    made = TensorProduct(*kinds, a, bytes_of(it.b, kinds[1], False, False), it.c, layout_a, layout_b, **more)
    return made, numbers(it.a, kinds[0]) @ numbers(it.b, kinds[1]).T + it.c


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_each_pair_of_types_with_fewer_than_eight_bits(kinds: tuple[str, str]) -> None:
    assert_product(*narrow(kinds, 128, 32, PLAIN, Layout(64)))


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("m", [64, 128])
def test_a_of_fewer_bits_from_tensor_memory(kind: str, m: int) -> None:
    assert_product(*narrow((kind, "e4m3"), m, 16, None, PLAIN))


@pytest.mark.parametrize("span", [16, 32, 64, 128])
def test_each_swizzle_of_fewer_bits(span: int) -> None:
    assert_product(*narrow(("e3m2", "e2m1"), 64, 8, Layout(span), Layout(span)))


def test_fewer_bits_of_two_blocks() -> None:
    assert_product(*narrow(("e2m1", "e2m3"), 256, 32, PLAIN, PLAIN, pair=True), **PAIR)


@pytest.mark.parametrize("kinds", [("e4m3", "e5m2"), ("e5m2", "e2m1"), ("e2m3", "e3m2")], ids="-".join)
@pytest.mark.parametrize("first", [(0, 0), (1, 2), (3, 1)])
def test_each_byte_of_a_word_for_scales_of_32(kinds: tuple[str, str], first: tuple[int, int]) -> None:
    it = case("mxf8f6f4", 128, 48, kinds)
    assert_product(it.product(first), it.wanted())


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("from_tensor_memory", [False, True])
def test_each_kind_from_shared_and_tensor_memory(name: str, from_tensor_memory: bool) -> None:
    it = case(name, 128, 32)
    assert_product(it.product(layout_a=None if from_tensor_memory else PLAIN), it.wanted())


@pytest.mark.parametrize("name", [name for name, (_, size, _) in SCALES.items() if size.endswith("2X")])
@pytest.mark.parametrize("first", [(0, 2), (2, 0)])
def test_each_half_of_a_word_for_two_scales(name: str, first: tuple[int, int]) -> None:
    it = case(name, 128, 40)
    assert_product(it.product(first), it.wanted())


@pytest.mark.parametrize("n", [8, 24, 136, 256])
@pytest.mark.parametrize("name", ["mxf8f6f4", "mxf4nvf4 of 16"])
def test_each_width(name: str, n: int) -> None:
    it = case(name, 128, n)
    assert_product(it.product(), it.wanted())


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize(("m", "n"), [(128, 32), (256, 16), (128, 256), (256, 192)])
def test_two_blocks(name: str, m: int, n: int) -> None:
    it = case(name, m, n)
    assert_product(it.product(pair=True), it.wanted(), **PAIR)


def test_bytes_whose_rows_are_contiguous() -> None:
    it = case("mxf8f6f4", 128, 64, ("e4m3", "e4m3"))
    assert_product(it.product(layout_a=Layout(64, across=True), layout_b=Layout(32, across=True)), it.wanted())


def test_signs_and_a_product_that_does_not_add() -> None:
    it = case("mxf4", 128, 16)
    assert_product(it.product(negated=(True, False)), 2 * it.c - it.wanted())
    assert_product(it.product(adds=False), it.wanted() - it.c)


@pytest.mark.parametrize(
    ("written", "meant"), [("scale_vec::1X", ""), ("scale_vec::1X", ".block32"), ("scale_vec::2X", ""), ("scale_vec::2X", ".block32"), ("scale_vec::4X", ".block16")]
)  # fmt: skip
def test_other_names_of_the_same_size(written: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = {"scale_vec::1X": "mxf8f6f4", "scale_vec::2X": "mxf4", "scale_vec::4X": "mxf4nvf4 of 16"}[written]
    it = case(name, 128, 16)
    made = it.product()
    body = made.body
    monkeypatch.setattr(type(made), "body", lambda self, *args: body(*args).replace("." + written, meant))
    assert_product(made, it.wanted())


def wide(name: str) -> ProductCodes:
    """Sums that every addition rounds."""
    it, random = case(name, 128, 8, seed=1), np.random.default_rng(9)
    if name == "mxf8f6f4":
        it = case(name, 128, 8, ("e5m2", "e4m3"), seed=1)
    c = random.normal(0, 1, it.c.shape).astype(np.float32)
    return ProductCodes(it.name, it.kind_a, it.kind_b, it.a, it.b, it.scales_a, it.scales_b, c)


@pytest.mark.parametrize("name", SCALES)
def test_sums_ascend_in_binary32(name: str) -> None:
    """Exact scaled products, one rounding for each, in ascending k."""
    it = wide(name)
    left, right = it.scaled()
    wanted = it.c.copy()
    for k in range(left.shape[1]):
        exact = left[:, k : k + 1].astype(np.longdouble) * right[:, k].astype(np.longdouble)
        wanted = (exact + wanted).astype(np.float32)
    assert_product(it.product(), wanted)


@pytest.mark.parametrize(("name", "code"), [("mxf8f6f4", 0xFF), ("mxf4nvf4 of 16", 0x7F)])
def test_a_scale_that_is_no_number(name: str, code: int) -> None:
    it = case(name, 128, 16)
    it.scales_b[3, 0] = code
    d, seen = it.product().run()
    assert (seen.fault, seen.findings) == (None, [])
    assert np.isnan(d[:, 3]).all()
    assert np.isfinite(np.delete(d, 3, axis=1)).all()


def test_scales_at_the_ends_of_their_range() -> None:
    """2^127 and 2^-127 meet: neither scaled matrix fits binary32, and the product does."""
    it = case("mxf8f6f4", 128, 8, ("e5m2", "e4m3"))
    it.scales_a[:], it.scales_b[:] = 254, 0
    assert_product(it.product(), numbers(it.a, "e5m2") @ numbers(it.b, "e4m3").T + it.c)


def test_a_product_counts_its_operations() -> None:
    _, seen = case("mxf4", 128, 16).product().run()
    assert seen.executed["matrix_flops"] == 2 * 128 * 16 * 64


IT = case("mxf4nvf4 of 16", 128, 40).product()
PLANTED = {
    "a scale of A differs in another quarter": (with_scales(IT, 0, 70, 1, 0x01020304), {}, "tensor-memory-misuse", "the scales of A in column 385 of tensor memory differ between lanes 6 and 70"),
    "a scale of B differs in another quarter": (with_scales(IT, 0, 99, 9, 0x01020304), {}, "tensor-memory-misuse", "the scales of B in column 393 of tensor memory differ between lanes 3 and 99"),
    "scales outside of what is allocated": (case("mxf4", 128, 16).product(offsets=(384, 512)), {}, "tensor-memory-misuse", "1 columns of tensor memory from column 512 in lane 0, and not all of them are allocated"),
    "scales that nothing wrote": (case("mxf4", 128, 16).product(offsets=(384, 480)), {}, "uninitialised-register", "was never written"),
    "scales stored without a wait": (IT, {"order": ORDER.replace("tcgen05.wait::st.sync.aligned;", "")}, "missing-wait", "no tcgen05.wait::st between"),
    "scales stored without a barrier": (IT, {"order": ORDER.replace("bar.sync 0;", "")}, "shared-race", "nothing orders the two"),
}  # fmt: skip


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_misuse_is_named(name: str) -> None:
    it, changed, kind, words = PLANTED[name]
    _, seen = it.run(**changed)
    assert seen.named(kind, words), seen


def test_a_word_beyond_the_last_column_of_b_may_differ() -> None:
    """40 columns have 32 scales in the first word and 8 in the second."""
    d, seen = with_scales(IT, 0, 75, 9, 0x01020304).run()
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d, case("mxf4nvf4 of 16", 128, 40).wanted())


GIVEN = IT.descriptor
EIGHT = case("mxf8f6f4", 128, 16, ("e4m3", "e4m3")).product()


@pytest.mark.parametrize(
    ("it", "descriptor", "words"),
    [
        (IT, GIVEN | 1 << 2, "sparse matrices"),
        (IT, GIVEN | 1 << 3, "bits that are reserved"),
        (IT, GIVEN | 1 << 12, "bits that are reserved"),
        (IT, GIVEN | 1 << 31, "K = 96"),
        (IT, GIVEN | 2 << 29, "begins 4 scales of a row at byte 2"),
        (IT, GIVEN | 1 << 16, "4 and 6 bits whose m or n is contiguous"),
        (IT, GIVEN & ~(7 << 7) | 5 << 7, "the format 5 of a matrix"),
        (IT, GIVEN & ~(31 << 24) | 16 << 24, "the shape m256n40"),
        (IT, GIVEN & ~(31 << 24) | 4 << 24, "bits that are reserved"),
        (EIGHT, EIGHT.descriptor & ~(1 << 23), "scales of ue4m3"),
        (EIGHT, EIGHT.descriptor | 2 << 7, "the format 2 of a matrix"),
        (case("mxf4", 128, 16).product(), GIVEN & ~(63 << 17) | 2 << 17, "scales of ue4m3"),
    ],
)
def test_an_instruction_descriptor_that_is_not_implemented_stops(it: TensorProduct, descriptor: int, words: str) -> None:  # fmt: skip
    _, seen = it.run(descriptor=descriptor)
    assert seen.fault is not None
    assert words in seen.fault


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("kind::mxf4", "its kind needs .block_scale"),
        ("kind::mxf4nvf4.block_scale", "does not have scales of this size"),
        ("kind::mxf4.block_scale.scale_vec::4X", "does not have scales of this size"),
        ("kind::mxf8f6f4.block_scale.block16", "does not have scales of this size"),
    ],
)
def test_scales_that_a_kind_does_not_have_stop_the_load(kind: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(IT), "kind", kind)
    _, seen = IT.run()
    assert seen.fault is not None
    assert words in seen.fault


@pytest.mark.promise("With `--emu-arith hardware`, sums are bit for bit those of MMA-Sim.")
def test_sums_that_nobody_measured_stop_the_launch() -> None:
    made, _ = narrow(("e2m1", "e4m3"), 64, 8, PLAIN, PLAIN)
    library().emu_hardware(1)
    try:
        _, seen = made.run()
    finally:
        library().emu_hardware(0)
    assert seen.fault is not None
    assert "nobody has measured" in seen.fault
