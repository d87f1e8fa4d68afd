"""The peak loops of an architecture as one C++ translation unit."""

from __future__ import annotations

from fmha_cli.codegen.cpu.emit import source_text


def emit_peaks(vector_bits: int, *, dot: bool, x86: bool) -> str:
    """The complete source.

    Args:
        vector_bits: width of the vectors that the kernels use.
        dot: the architecture has AVX512-BF16 dot products.
        x86: the registers are named as on x86-64.
    """
    constants = {
        "VECTOR_BYTES": vector_bits // 8,
        "CHAINS": 24 if vector_bits == 512 or not x86 else 12,  # as many as there are registers for
        "HAS_DOT": int(dot),
    }
    register = '"v"' if vector_bits == 512 else '"x"' if x86 else '"w"'
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    lines.append(f"#define REGISTER(a) {register}(a)")
    return "\n".join([*lines, source_text("peaks.cpp")])
