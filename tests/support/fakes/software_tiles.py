"""AMX kernels whose tile instructions are functions in C++: the generator's text with one macro set, for machines without AMX.

With AVX512-BF16 nothing else changes. On other machines the vector operations are those of ``generic``, widened to 16 floats.
"""

from __future__ import annotations

from dataclasses import replace

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.codegen.cpu.parts import source_text
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from tests.support.builds.planted_cpu import _with
from tests.support.fakes.software_vectors import PAIRS, sixteen_floats
from tests.support.models.faults import Fault, TileFault

AMX, VECTORS, ANYWHERE = "x86_64_amx", "x86_64_v4_bf16", "generic"
HOSTS = (VECTORS, ANYWHERE)
"""Architectures whose flags compile software tiles."""
HOST = VECTORS if VECTORS in detect().archs else ANYWHERE
WHOLE = tuple(arch for arch in detect().archs if arch != AMX)
"""The architectures of this machine that have a kernel of every dtype and kind, best first."""
TILE_FAULTS = "fmha_tile_faults"
"""The variable of a library in which software tiles note what a processor would refuse."""

FAULTS = (*Fault, *TileFault)

_QUICK = '#pragma GCC optimize("O1")\n'
"""With -O3 a prefill kernel of widened vectors took 22 s to compile on a Zen 3, with -O1 5 s; the tests want its values."""
_ROUND = """
INLINE vf vround(vf a, vf b) {
  bf16 x[2 * NL];
  vstore(x, a), vstore(x + NL, b);
  vf both;
  memcpy(&both, x, sizeof both);
  return both;
}
INLINE void vstore_rows(bf16* a, bf16* b, vf both) {
  memcpy(a, &both, NL * sizeof(bf16));
  memcpy(b, (const char*)&both + NL * sizeof(bf16), NL * sizeof(bf16));
}
INLINE vf vpairs(vf both) {
  uint16_t x[2 * NL];
  memcpy(x, &both, sizeof x);
  vu y;
  for (int i = 0; i < NL; ++i) y[i] = (uint32_t)x[NL + i] << 16 | x[i];
  return (vf)y;
}
"""


def tiles_kernel(host: str = HOST, kind: LoopKind = LoopKind.PREFILL) -> KernelSpec:
    """The AMX kernel of bf16 and a kind, to be built with the flags of another architecture."""
    return replace(next(k for k in cpu_kernels(load_arch(AMX)) if algorithm_of(k).kind is kind), arch=host)


def software(kernel: KernelSpec, text: str | None = None) -> str:
    """The text of :func:`tiles_kernel` with functions in place of instructions."""
    text = _with(text or emit(kernel), {"#define TILES_SOFTWARE 0\n": "#define TILES_SOFTWARE 1\n"})
    if kernel.arch == VECTORS:
        return text
    own = {source_text("x86_intrinsics.h"): "", source_text("simd_avx512.h"): sixteen_floats() + PAIRS}
    if algorithm_of(kernel).kind is LoopKind.BACKWARD:
        own[source_text("round_avx512.h")] = _ROUND
    return _QUICK + _with(text, own)
