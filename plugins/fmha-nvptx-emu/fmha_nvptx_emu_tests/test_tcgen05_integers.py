"""tcgen05.mma of 8-bit integers (``kind::i8``): signs, layouts, shapes and sums of s32 against numpy, and what the kind does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array
from fmha_nvptx_emu_tests.support.tensor_core import PAIR, TensorProduct
from fmha_nvptx_emu_tests.support.warpgroup import Layout

PLAIN = Layout(128)
TYPES = {"u8": np.uint8, "s8": np.int8}
LEAST, MOST = -(2**31), 2**31 - 1
_K = 32


def whole(kind_a: str, kind_b: str, m: int, n: int, layout_a: Layout | None = PLAIN, layout_b: Layout = PLAIN, **more: Any) -> TensorProduct:  # fmt: skip
    """Every number that the types have, and C of all sizes."""
    random = np.random.default_rng([m, n])

    def drawn(kind: str, rows: int) -> Array:
        return random.integers(np.iinfo(TYPES[kind]).min, np.iinfo(TYPES[kind]).max + 1, (rows, _K)).astype(TYPES[kind])

    c = random.integers(LEAST, MOST, (m, n)).astype(np.int32)
    return TensorProduct(kind_a, kind_b, drawn(kind_a, m), drawn(kind_b, n), c, layout_a, layout_b, "s32", **more)


def exact(it: TensorProduct) -> Array:
    c = it.c.astype(np.int64) if it.adds else 0
    return it.a.astype(np.int64) @ it.b.astype(np.int64).T + c


def assert_whole(it: TensorProduct, **changed: Any) -> None:
    d, seen = it.run(**changed)
    assert (seen.fault, seen.findings) == (None, [])
    total = exact(it)
    np.testing.assert_array_equal(d, np.clip(total, LEAST, MOST) if it.saturates else total.astype(np.int32))


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("kind_a", TYPES)
@pytest.mark.parametrize("kind_b", TYPES)
def test_signed_and_unsigned_bytes_may_meet(kind_a: str, kind_b: str) -> None:
    """255 times 255 is a product of unsigned bytes alone; the sums do not fit binary32."""
    assert_whole(whole(kind_a, kind_b, 128, 32))
    assert_whole(whole(kind_a, kind_b, 64, 16, None, adds=False))


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("span", [16, 32, 64, 128])
@pytest.mark.parametrize("across", [False, True])
def test_each_layout(span: int, across: bool) -> None:
    layout = Layout(span, across=across)
    assert_whole(whole("s8", "u8", 128, 128, layout, layout))


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
def test_a_sum_wraps_around_or_keeps_to_its_range() -> None:
    near = np.array([MOST - 10, LEAST + 10, MOST, LEAST])
    it = whole("s8", "s8", 128, 16)
    it = replace(it, c=np.resize(near, (128, 16)).astype(np.int32))
    total = exact(it)
    assert (total > MOST).any() and (total < LEAST).any()  # noqa: PT018 - both ends
    assert_whole(it)
    assert_whole(replace(it, saturates=True))


@pytest.mark.parametrize(("m", "n"), [(64, 8), (64, 24), (128, 24), (128, 48), (128, 256)])
def test_each_width_of_one_block(m: int, n: int) -> None:
    assert_whole(whole("u8", "s8", m, n))


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize(("m", "n"), [(128, 32), (256, 64), (256, 256)])
def test_two_blocks_make_one_product(m: int, n: int) -> None:
    assert_whole(whole("u8", "s8", m, n, pair=True), **PAIR)


@pytest.mark.parametrize(("m", "n"), [(32, 64), (128, 128)])
def test_products_of_ws(m: int, n: int) -> None:
    assert_whole(whole("s8", "s8", m, n, stationary=True))


@pytest.mark.parametrize(("changed", "words"), [
    ({"b": 40}, "the shape m128n40, which cta_group::1 does not have"),
    ({"pair": 48}, "the shape m256n48, which cta_group::2 does not have"),
    ({"negated": (True, False)}, "negates a matrix of integers"),
    ({"sums": "f32"}, "the format 1 of D in its instruction descriptor does not fit"),
])  # fmt: skip
def test_what_the_kind_does_not_have_stops_the_launch(changed: dict[str, Any], words: str) -> None:
    if "b" in changed:
        it, how = whole("s8", "s8", 128, changed["b"]), {}
    elif "pair" in changed:
        it, how = whole("s8", "s8", 256, changed["pair"], pair=True), PAIR
    else:
        it, how = replace(whole("s8", "s8", 128, 16), **changed), {}
    _, seen = it.run(**how)
    assert words in (seen.fault or "")


def test_the_scale_of_d_is_not_of_this_kind() -> None:
    _, seen = replace(whole("s8", "s8", 128, 16), scale=2).run()
    assert "scale-input-d is a constant from 0 to 15, of f16 and tf32" in (seen.fault or "")
