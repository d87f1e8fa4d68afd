"""The peak loops of an architecture as one C++ translation unit."""

from __future__ import annotations

from fmha_cli.codegen.cpu.parts import source_text


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
