"""Elements of 4 and 6 bits and block scales of tcgen05.mma: as bits in shared and tensor memory, and as numbers of numpy.

Source: PTX ISA 9.1, 9.7.16.10.4 (packing) and 9.7.16.10.7 (scales). Numbers come from ml_dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from fmha_nvptx_emu_tests.support.ptx_machine import Array
from fmha_nvptx_emu_tests.support.tensor_core import AT_BESIDE, FORMATS, Places, TensorProduct
from fmha_nvptx_emu_tests.support.warpgroup import Layout

TYPES: dict[str, tuple[Any, int]] = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8), "e5m2": (ml_dtypes.float8_e5m2, 8), "e2m3": (ml_dtypes.float6_e2m3fn, 6),
    "e3m2": (ml_dtypes.float6_e3m2fn, 6), "e2m1": (ml_dtypes.float4_e2m1fn, 4),
}  # fmt: skip
"""Type -> numpy's, and its bits."""
SCALE_TYPES: dict[str, Any] = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}
SCALES = {
    "mxf8f6f4": ("mxf8f6f4", "scale_vec::1X", "ue8m0"),
    "mxf4": ("mxf4", "scale_vec::2X", "ue8m0"),
    "mxf4nvf4 of 32": ("mxf4nvf4", "scale_vec::2X", "ue8m0"),
    "mxf4nvf4 of 16, ue8m0": ("mxf4nvf4", "scale_vec::4X", "ue8m0"),
    "mxf4nvf4 of 16": ("mxf4nvf4", "scale_vec::4X", "ue4m3"),
}
"""Name -> kind, size of its scales, type of its scales."""

PLAIN = Layout(128)


def numbers(codes: Array, type_: str) -> Any:
    return codes.astype(np.uint8).view(TYPES[type_][0]).astype(np.float64)


def scale_numbers(codes: Array, type_: str) -> Any:
    return codes.astype(np.uint8).view(SCALE_TYPES[type_]).astype(np.float64)


def packed(codes: Array, bits: int, padded: bool = True) -> Array:
    """Codes (rows, k) of ``bits`` bits in shared memory: sixteen of them, then padding up to 16 bytes."""
    each = (codes[..., None].astype(np.uint8) >> np.arange(bits, dtype=np.uint8)) & 1
    raw = np.packbits(each.reshape(len(codes), -1, 16 * bits), axis=2, bitorder="little")
    if padded:
        raw = np.pad(raw, ((0, 0), (0, 0), (0, 16 - raw.shape[2])))
    return np.ascontiguousarray(raw.reshape(len(codes), -1))


def contained(codes: Array, type_: str) -> Array:
    """The same in tensor memory: a byte each; 4 bits stand in its middle."""
    return (codes << 2 if type_ == "e2m1" else codes).astype(np.uint8)


def bytes_of(codes: Array, type_: str, whole: bool, tensor_memory: bool) -> Array:
    """``whole``: two elements fill a byte, as the mxf4 kinds have them."""
    if whole:
        return packed(codes, 4, padded=False)
    return contained(codes, type_) if tensor_memory else packed(codes, TYPES[type_][1])


def scale_words(rows: Array, columns: Array, first: tuple[int, int], places: Places, m: int) -> Array:
    """The sixteen words of each (block, lane): four with the scales of A, four empty, eight with those of B.

    The scales of row r lie in lane r % 32 of every quarter, in word r / 32. Where the upper lanes hold the second half of D's
    columns, they have the scales of that half.
    """
    blocks = len(places.rows)
    out = np.zeros((blocks, 128, 16, 4), np.uint8)
    halves = blocks == 2 and m == 128
    for block in range(blocks):
        own = rows[m // blocks * block :][: m // blocks]
        for lane in range(128):
            half = columns[len(columns) // 2 * (lane // 64) :][: len(columns) // 2] if halves else columns
            for start, scales, byte in ((0, own, first[0]), (8, half, first[1])):
                mine = scales[lane % 32 :: 32]
                out[block, lane, start : start + len(mine), byte : byte + scales.shape[1]] = mine
    return out.view(np.uint32).reshape(blocks, 128, 16)


@dataclass(frozen=True)
class ScaledProduct(TensorProduct):
    """A product with block scales. ``a``, ``b``: bytes (rows, 32) as memory has them; ``first``: the bytes of a word where scales begin."""

    name: str = ""
    first: tuple[int, int] = (0, 0)
    offsets: tuple[int, int] = (AT_BESIDE, AT_BESIDE + 8)

    @property
    def kind(self) -> str:
        kind, size, _ = SCALES[self.name]
        return f"kind::{kind}.block_scale.{size}"

    @property
    def behind(self) -> str:
        return f", [%r10+{self.offsets[0]}], [%r10+{self.offsets[1]}]"

    @property
    def descriptor(self) -> int:
        kind, _, scales = SCALES[self.name]
        formats = [1, 1] if kind.startswith("mxf4") else [FORMATS[self.kind_a], FORMATS[self.kind_b]]
        bits = self.first[1] << 4 | formats[0] << 7 | formats[1] << 10 | self.negated[0] << 13 | self.negated[1] << 14
        across = (self.layout_a is not None and self.layout_a.across, self.layout_b.across)
        bits |= across[0] << 15 | across[1] << 16 | len(self.b) // 8 << 17 | (scales == "ue8m0") << 23
        return bits | len(self.a) // 16 << 24 | self.first[0] << 29


@dataclass(frozen=True)
class ProductCodes:
    """Codes of a product: a (m, k), b (n, k), scales of their rows, and numbers c (m, n)."""

    name: str
    kind_a: str
    kind_b: str
    a: Array
    b: Array
    scales_a: Array
    scales_b: Array
    c: Array

    def product(self, first: tuple[int, int] = (0, 0), layout_a: Layout | None = PLAIN, **more: Any) -> ScaledProduct:
        whole = self.name.startswith("mxf4")
        a, b = bytes_of(self.a, self.kind_a, whole, layout_a is None), bytes_of(self.b, self.kind_b, whole, False)
        places = Places.of(len(a), len(b), bool(more.get("pair")))
        beside = scale_words(self.scales_a, self.scales_b, first, places, len(a))
        return ScaledProduct(self.kind_a, self.kind_b, a, b, self.c, layout_a, more.pop("layout_b", PLAIN), name=self.name, first=first, beside=beside, **more)  # fmt: skip

    def scaled(self) -> tuple[Any, Any]:
        """Both matrices with their scales."""
        of = SCALES[self.name][2]
        repeat = self.a.shape[1] // self.scales_a.shape[1]
        both = ((self.a, self.kind_a, self.scales_a), (self.b, self.kind_b, self.scales_b))
        left, right = (numbers(x, kind) * np.repeat(scale_numbers(s, of), repeat, axis=1) for x, kind, s in both)
        return left, right

    def wanted(self) -> Any:
        left, right = self.scaled()
        return left @ right.T + self.c


def case(name: str, m: int, n: int, kinds: tuple[str, str] = ("e2m1", "e2m1"), seed: int = 0) -> ProductCodes:
    """Numbers whose sums are exact in every order, so a wrong place is the only fault."""
    kind, size, of = SCALES[name]
    random, k, each = np.random.default_rng([m, n, seed]), 32 if kind == "mxf8f6f4" else 64, int(size[-2])

    def codes(rows: int, type_: str) -> Array:
        type_of, bits = TYPES[type_]
        if bits < 8:
            return random.integers(0, 2**bits, (rows, k)).astype(np.uint8)
        return random.integers(-4, 5, (rows, k)).astype(type_of).view(np.uint8)

    def scales(rows: int) -> Array:
        values = 2.0 ** random.integers(-2, 3, (rows, each)) if of == "ue8m0" else random.choice([0.5, 1.0, 1.5, 2.0, 3.0], (rows, each))  # fmt: skip
        return values.astype(SCALE_TYPES[of]).view(np.uint8)

    c = random.integers(-8, 9, (m, n)).astype(np.float32)
    return ProductCodes(name, *kinds, codes(m, kinds[0]), codes(n, kinds[1]), scales(m), scales(n), c)


def with_scales(it: ScaledProduct, block: int, lane: int, column: int, word: int) -> ScaledProduct:
    """Another word in place of one of the scales."""
    assert it.beside is not None
    beside = it.beside.copy()
    beside[block, lane, column] = word
    return replace(it, beside=beside)
