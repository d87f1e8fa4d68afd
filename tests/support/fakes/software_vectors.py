"""Kernels of AVX-512 whose vectors are those of ``generic``, widened to 16 floats: the generator's text, for machines without AVX-512."""

from __future__ import annotations

from dataclasses import replace

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.codegen.cpu.parts import source_text
from fmha_cli.domain.kernel import KernelSpec
from tests.support.builds.planted_cpu import _with

PAIRS = """
INLINE vf vload_pairs(const bf16* p, i64 n) {
  vf x = {};
  memcpy(&x, p, (size_t)min64(n, 2 * NL) * sizeof(bf16));
  return x;
}
INLINE vf vjoin(vf a, vf b) {
  vu x;
  for (int i = 0; i < NL; ++i) {
    bf16 low, high;
    from_float(&low, a[i]), from_float(&high, b[i]);
    x[i] = (uint32_t)high.bits << 16 | low.bits;
  }
  return (vf)x;
}
INLINE vf vzip(vf a, vf b) { return (vf)(((vu)a >> 16) | (vu)b); }
INLINE vf vweave(vf a, vf b, int first) {
  uint16_t x[2 * NL], y[2 * NL];
  memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y);
  vu z;
  for (int i = 0; i < NL; ++i) z[i] = (uint32_t)y[first + i] << 16 | x[first + i];
  return (vf)z;
}
INLINE vf vweave_low(vf a, vf b) { return vweave(a, b, 0); }
INLINE vf vweave_high(vf a, vf b) { return vweave(a, b, NL); }
"""
"""Operations on pairs of bf16, other than products."""
_PRODUCTS = """
INLINE vf vpair(uint32_t x) { return (vf)(vu{} + x); }
INLINE vf vdot(vf acc, vf a, vf b) {
  const vu x = (vu)a, y = (vu)b;
  acc = vfma((vf)(x & 0xffff0000u), (vf)(y & 0xffff0000u), acc);
  return vfma((vf)(x << 16), (vf)(y << 16), acc);
}
"""


def widest(kernel: KernelSpec, host: str) -> tuple[KernelSpec, str]:
    """A kernel that is built with the flags of another architecture, and its text with functions in place of AVX-512's instructions."""
    pairs = PAIRS + _PRODUCTS if algorithm_of(kernel).pairs else ""
    text = _with(
        emit(kernel), {source_text("simd_avx512.h"): sixteen_floats() + pairs, source_text("x86_intrinsics.h"): ""}
    )
    return replace(kernel, arch=host), text


def sixteen_floats() -> str:
    """``simd_generic.h`` with vectors of 16 floats."""
    text = source_text("simd_generic.h")
    assert text.count("vector_size(16)") == 3
    lanes = range(16)
    return _with(
        text.replace("vector_size(16)", "vector_size(64)"),
        {
            "NL = 4": "NL = 16",
            "(vf){x, x, x, x}": "x - vf{}",
            "(vi){0, 1, 2, 3}": f"(vi){{{', '.join(map(str, lanes))}}}",
            "(vu){0, 1, 2, 3}": f"(vu){{{', '.join(map(str, lanes))}}}",
            "(vf){0, 1, 2, 3}": f"(vf){{{', '.join(map(str, lanes))}}}",
            "(vf){to_float(p[0]), to_float(p[1]), to_float(p[2]), to_float(p[3])}": (
                f"(vf){{{', '.join(f'to_float(p[{i}])' for i in lanes)}}}"
            ),
            "(x[0] + x[1]) + (x[2] + x[3])": " + ".join(f"x[{i}]" for i in lanes),
            "float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];": (
                "float a = x[0], b = a;\n  for (int i = 0; i < NL; ++i) b = b > x[i] ? b : x[i];"
            ),
        },
    )
