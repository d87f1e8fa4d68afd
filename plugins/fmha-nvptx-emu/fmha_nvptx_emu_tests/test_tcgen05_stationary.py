"""tcgen05.mma.ws: its shapes, the places of D, and columns of B that a mask makes zeros."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.tensor_core import TensorProduct, plain, small
from fmha_nvptx_emu_tests.support.warpgroup import Layout

PLAIN = Layout(128)
MASK = {"scale": "%rd20"}


def assert_product(it: TensorProduct, wanted: Any, **changed: Any) -> None:
    d, seen = it.run(**changed)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(d.astype(np.float32), wanted)


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize(("m", "n"), [*product((32, 64, 128), (64, 128, 256))])
def test_each_shape(m: int, n: int) -> None:
    it = small("f16", m, n, PLAIN, PLAIN, stationary=True)
    assert_product(it, plain(it) + it.c)


@pytest.mark.parametrize(("kind", "kind_b"), [("bf16", "bf16"), ("tf32", "tf32"), ("e4m3", "e5m2")])
def test_each_kind(kind: str, kind_b: str) -> None:
    it = small(kind, 32, 64, Layout(64), PLAIN, kind_b, stationary=True)
    assert_product(it, plain(it) + it.c)
    assert_product(replace(it, adds=False), plain(it))


def test_sums_of_halves_and_a_from_tensor_memory() -> None:
    it = small("f16", 64, 64, PLAIN, PLAIN, sums="f16", stationary=True)
    assert_product(it, plain(it) + it.c)
    it = small("f16", 128, 64, None, PLAIN, stationary=True)
    assert_product(it, plain(it) + it.c)


EXAMPLES: dict[str, tuple[int, int, list[int], list[int], list[tuple[str, str]]]] = {
    "example 1": (128, 0, [0], [0], [("", "0")]),
    "example 2": (128, 1, [0], [0], [("", "0000111")]),
    "example 3": (64, 1, [0, 0], [1, 0], [("111", "0000111"), ("", "0000111")]),
    "example 4 without its shift": (
        32, 1, [0, 1, 2, 1], [1, 1, 0, 0], [("111", "0000111"), ("11", "0000111"), ("00", "1110000"), ("000", "1110000")],
    ),
}  # fmt: skip
"""PTX ISA 9.1, 9.7.16.4.3: rows, whether a mask is made, where it starts, its first bits; and how each sub-mask begins and goes on,
the lowest bit first. Skip span 2, use span 3."""


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_mask_of_the_document(name: str) -> None:
    m, made, starts, firsts, masks = EXAMPLES[name]
    bits = made << 39 | 2 << 40 | 3 << 48
    for k, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        bits |= start << 8 * k | first << (32 + k)
    it = small("f16", m, 64, PLAIN, PLAIN, stationary=True, **MASK)
    zero = np.array(list("".join((begins + 64 * again)[: 64 * m // 128] for begins, again in masks))) == "1"
    assert_product(it, np.where(zero, 0, plain(it)) + it.c, before=f"mov.b64 %rd20, {bits};")


@pytest.mark.parametrize(
    ("it", "changed", "words"),
    [
        (small("f16", 64, 8, PLAIN, PLAIN, stationary=True), {}, "the shape m64n8, which .ws does not have"),
        (small("f16", 64, 64, None, PLAIN, stationary=True), {}, "A in tensor memory of .ws"),
        (small("f16", 64, 64, PLAIN, PLAIN, stationary=True, **MASK), {"before": f"mov.b64 %rd20, {1 << 56};"}, "shifts columns"),
    ],
)  # fmt: skip
def test_what_is_not_implemented_stops_by_its_name(it: TensorProduct, changed: dict[str, Any], words: str) -> None:
    _, seen = it.run(**changed)
    assert seen.fault is not None
    assert words in seen.fault


def test_sums_that_are_read_before_the_commit_is_waited_for() -> None:
    _, seen = small("f16", 32, 64, PLAIN, PLAIN, stationary=True).run(wait="")
    assert "missing-wait" in seen.kinds


def test_it_has_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    it = small("f16", 128, 64, PLAIN, PLAIN, stationary=True)
    monkeypatch.setattr(type(it), "kind", "ws.kind::f16")
    body = type(it).body
    monkeypatch.setattr(
        type(it), "body", lambda self, *args: body(self, *args).replace("mma.cta_group::1", "mma.cta_group::2")
    )
    _, seen = it.run()
    assert seen.fault is not None
    assert ".ws has neither" in seen.fault
