"""What the texts of all CPU kernels share: files of C++, element types, constants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.signature import KvKey, Signature

MAX_HDIM = 576
"""The largest head dim: that of absorbed multi-head latent attention. It is limited because the row-by-row path keeps one row
of sums on the stack (two in the backward kernels, 4.5 KiB)."""

ELEMENT = {DType.FP32: "float", DType.FP16: "f16", DType.BF16: "bf16"}
"""The C++ type of an element."""

EXTREME_FAULTS = ("SCALED_MAXIMUM", "BIASED_KEY")
"""Faults of either direction that only extreme inputs show: macros like ``emit.FAULTS``."""

TILE_FAULTS = ("TILE_PAIRS", "TILE_TAIL")
"""Faults of operands in matrix tiles: macros like ``emit.FAULTS``."""


def is_bytes(signature: Signature) -> bool:
    """Whether a kernel reads keys and values of 8 bits, whose meaning is a table."""
    return signature.dtype.is_fp8 or signature.kv_dtype is not KvKey.SAME


def element_types(signature: Signature, *, pairs: bool, direct: bool = False) -> list[str]:
    """Lines of C++: the types of O (and what is not named here), of Q, of K and V, of the bias, and of the rows of K and V that
    tiles read: bytes are widened first, to bf16 where tiles multiply pairs, unless the tiles read them (``direct``)."""
    narrow, wide = is_bytes(signature), ELEMENT[signature.dtype_out]
    key = "bf16" if pairs else "float"
    types = {
        "T": wide,
        "QT": "byte8" if signature.dtype.is_fp8 else wide,
        "KT": "byte8" if narrow else wide,
        "BT": "float" if signature.dtype.is_fp8 else wide,
        "ROW": ("byte8" if direct else key) if narrow else wide,
    }
    return [f"typedef {text} {name};" for name, text in types.items()]


@cache
def source_text(name: str) -> str:
    """One file of C++ text of this package."""
    return resources.files(__package__).joinpath("src", name).read_text("utf-8")


def vector_math(*, short: bool = False) -> list[str]:
    """exp2, tanh and Philox. ``short``: weights are rounded to bf16, so a shorter exp2 is enough."""
    return [source_text(name) for name in ("scalars.h", "short_exp2.h" if short else "exp2.h", "vmath.h")]


def constants(flags: Mapping[str, bool], sizes: Mapping[str, int]) -> list[str]:
    """Lines of C++: flags as macros, because the preprocessor asks for them, and sizes as an enum."""
    lines = [f"#define {name} {int(on)}" for name, on in flags.items()]
    return [*lines, f"enum {{ {', '.join(f'{name} = {value}' for name, value in sizes.items())} }};"]


def join_parts(parts: list[str]) -> str:
    """Parts of a source, each ending with one line break."""
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def emit_peaks(vector_bits: int, *, dot: bool, tiles: bool = False) -> str:
    """The complete source.

    Args:
        vector_bits: width of the vectors that the kernels use.
        dot: the architecture has dot products of bf16 pairs.
        tiles: it has them in matrix tiles.
    """
    constants = {"VECTOR_BYTES": vector_bits // 8, "HAS_DOT": int(dot), "HAS_TILES": int(tiles)}
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    return "\n".join([*lines, source_text("peaks.cpp")])
